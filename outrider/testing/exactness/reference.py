"""The law that outputs must have, computed the slow and plain way, apart from the engine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.engine.sampling_options import SamplingOptions


def reference_probs(
    logits: Sequence[float],
    options: SamplingOptions,
    *,
    prompt_token_ids: Sequence[int],
    output_token_ids: Sequence[int],
) -> list[float]:
    """The probabilities of the token that follows prompt and output, over the vocabulary."""
    scores = [
        _score(
            logit,
            token_id,
            options,
            prompt_token_ids=prompt_token_ids,
            output_token_ids=output_token_ids,
        )
        for token_id, logit in enumerate(logits)
    ]
    ranked = sorted(range(len(scores)), key=lambda token_id: (-scores[token_id], token_id))
    if options.greedy:
        ranked = ranked[:1]
    elif options.top_k:
        ranked = ranked[: options.top_k]
    temperature = 1.0 if options.greedy else options.temperature
    best = scores[ranked[0]]
    odds = {token_id: math.exp((scores[token_id] - best) / temperature) for token_id in ranked}
    enough = options.top_p * math.fsum(odds.values())
    kept: dict[int, float] = {}
    for token_id in ranked:
        if kept and options.top_p < 1.0 and math.fsum(kept.values()) >= enough:
            break
        kept[token_id] = odds[token_id]
    kept = {token_id: odd for token_id, odd in kept.items() if odd >= options.min_p}
    total = math.fsum(kept.values())
    return [kept.get(token_id, 0.0) / total for token_id in range(len(scores))]


def _score(
    logit: float,
    token_id: int,
    options: SamplingOptions,
    *,
    prompt_token_ids: Sequence[int],
    output_token_ids: Sequence[int],
) -> float:
    score = logit + options.logit_bias.get(token_id, 0.0)
    if len(output_token_ids) < options.min_tokens and token_id in options.stop_token_ids:
        return -math.inf
    count = output_token_ids.count(token_id)
    if count or token_id in prompt_token_ids:
        penalty = options.repetition_penalty
        score = score / penalty if score > 0 else score * penalty
    if count:
        score -= options.presence_penalty + options.frequency_penalty * count
    return score
