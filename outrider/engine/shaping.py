"""From logits to the probabilities that tokens are drawn from, alike for draft and target.

The order is fixed: bias and min_tokens, penalties, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.leaders import leaders, leading
from outrider.engine.nucleus import nucleus
from outrider.engine.penalties import LogitEdits, changes_logits
from outrider.engine.sampling_options import SamplingOptions
from outrider.errors import NumericalFailure

# Top-p looks at this many most likely tokens first: on real text they nearly always have the mass.
_LEADERS = 256


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
    if 0 < options.top_k < scores.shape[1]:
        values, places = leaders(scores, options.top_k)
        odds = _log_odds(values, peaks, options).exp_()
        kept = _kept_leaders(odds, options, enough=options.top_p * odds.sum(dim=1, keepdim=True))
        return torch.zeros_like(scores).scatter_(1, places, _normalised(odds, kept))
    log_odds = _log_odds(scores, peaks, options)
    if options.top_p < 1.0:
        return _top_p(scores, log_odds, options)
    if options.min_p > 0.0:
        odds = log_odds.exp_()
        return _normalised(odds, odds >= options.min_p)
    return log_odds.softmax(dim=1)


def _log_odds(scores: torch.Tensor, peaks: torch.Tensor, options: SamplingOptions) -> torch.Tensor:
    """Log-probabilities less the row's largest.

    The maximum goes first, so that a tiny temperature divides differences, never big numbers.
    """
    return scores.sub(peaks).div_(options.temperature)


def _top_p(scores: torch.Tensor, log_odds: torch.Tensor, options: SamplingOptions) -> torch.Tensor:
    """Top-p and min-p, on the most likely tokens alone in the rows where they have the mass."""
    values, places = leading(scores, min(_LEADERS, scores.shape[1]))
    odds = log_odds.gather(1, places).exp_()
    enough = options.top_p * log_odds.exp().sum(dim=1, keepdim=True)
    kept = _kept_leaders(odds, options, enough=enough)
    # Of equals at the end of the leaders some may be missing: they must not decide.
    at_end = (kept & (values == values[:, -1:])).any(dim=1)
    short = ((odds.sum(dim=1) < enough[:, 0]) | at_end).nonzero().flatten()
    probs = torch.zeros_like(scores).scatter_(1, places, _normalised(odds, kept))
    for row in short.tolist():
        everything = log_odds[row].exp()
        inside = nucleus(log_odds[row], options.top_p) & (everything >= options.min_p)
        probs[row] = _normalised(everything[None], inside[None])[0]
    return probs


def _kept_leaders(
    odds: torch.Tensor, options: SamplingOptions, *, enough: torch.Tensor
) -> torch.Tensor:
    """Which of the leaders [rows, leaders], most likely first, top-p and min-p keep."""
    kept = odds >= options.min_p
    if options.top_p < 1.0:
        kept &= odds.cumsum(dim=1, dtype=torch.float64) - odds < enough
        kept[:, 0] = True
    return kept


def _normalised(odds: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    odds = odds.masked_fill(~kept, 0.0)
    return odds.div_(odds.sum(dim=1, keepdim=True))
