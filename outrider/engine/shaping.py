"""From logits to the probabilities that tokens are drawn from, alike for draft and target.

The order is fixed: bias and min_tokens, penalties, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.leaders import leaders
from outrider.engine.penalties import LogitEdits, changes_logits
from outrider.engine.sampling_options import SamplingOptions
from outrider.errors import NumericalFailure

# Top-p looks at this many most likely tokens first, and at four times as many while they fall
# short of the mass asked for: on real text 256 nearly always reach it.
_FIRST_LEADERS = 256
_WIDENING = 4


def target_probs(
    logits: torch.Tensor,
    options: SamplingOptions,
    *,
    columns: Columns,
    token_ids: Sequence[int],
    draft_token_ids: Sequence[int],
    prompt_length: int,
) -> torch.Tensor:
    """Shapes logits [rows, columns] into probabilities of the same shape.

    Row j is what follows `token_ids` (the committed prefix, of which the first `prompt_length`
    are the prompt) and the first j of `draft_token_ids`. The draft uses this for q as the target
    does for p. Probabilities are float64 for float64 logits, else float32; `logits` is left as it
    is. Greedy options give 1 at the largest logit, the lowest id among equals. Top-k keeps
    exactly k, the lower ids among equals; top-p keeps the fewest tokens whose mass, renormalised
    after top-k, reaches it. A row in which min_tokens would ban every possible token keeps its
    stop ids.

    Raises NumericalFailure when a row has a NaN or +inf logit, or nothing but -inf.
    """
    scores = logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)
    if changes_logits(options):
        scores = scores.clone() if scores is logits else scores
        LogitEdits(
            options,
            columns=columns,
            token_ids=token_ids,
            draft_token_ids=draft_token_ids,
            prompt_length=prompt_length,
        ).apply(scores)
    peaks = scores.amax(dim=1, keepdim=True)
    if not bool(peaks.isfinite().all()):
        raise NumericalFailure("the model gave NaN or infinite logits")
    if options.greedy:
        best = scores.argmax(dim=1, keepdim=True)
        return torch.zeros_like(scores).scatter_(1, best, 1.0)
    top_k = options.top_k if 0 < options.top_k < scores.shape[1] else 0
    if top_k or options.top_p < 1.0:
        return _truncated(scores, peaks, options, top_k=top_k)
    if options.min_p > 0.0:
        odds = _odds(scores, peaks, options.temperature)
        odds.masked_fill_(odds < options.min_p, 0.0)
        return odds.div_(odds.sum(dim=1, keepdim=True))
    if options.temperature == 1.0:
        return scores.softmax(dim=1)
    return scores.sub(peaks).div_(options.temperature).softmax(dim=1)


def _odds(scores: torch.Tensor, peaks: torch.Tensor, temperature: float) -> torch.Tensor:
    """Each token's probability in units of the most likely one's.

    The maximum goes first, so that a tiny temperature divides differences, never big numbers.
    """
    return scores.sub(peaks).div_(temperature).exp_()


def _truncated(
    scores: torch.Tensor, peaks: torch.Tensor, options: SamplingOptions, *, top_k: int
) -> torch.Tensor:
    """Top-k, top-p and min-p on the most likely tokens alone, all rows at once: no full sort."""
    size = scores.shape[1]
    if top_k:
        values, places = leaders(scores, top_k)
        odds = _odds(values, peaks, options.temperature)
        mass = odds.cumsum(dim=1, dtype=torch.float64)
        enough = options.top_p * mass[:, -1:]
    else:
        everything = _odds(scores, peaks, options.temperature)
        enough = options.top_p * everything.sum(dim=1, keepdim=True, dtype=torch.float64)
        count = min(_FIRST_LEADERS, size)
        while True:
            values, places = leaders(scores, count)
            odds = _odds(values, peaks, options.temperature)
            mass = odds.cumsum(dim=1, dtype=torch.float64)
            if count == size or bool((mass[:, -1:] >= enough).all()):
                break
            count = min(count * _WIDENING, size)
    dropped = odds < options.min_p
    if options.top_p < 1.0:
        dropped |= mass - odds >= enough
        dropped[:, 0] = False  # rounding and a tiny top-p leave the most likely token
    odds = odds.masked_fill_(dropped, 0.0)
    odds /= odds.sum(dim=1, keepdim=True)
    return torch.zeros_like(scores).scatter_(1, places, odds)
