"""The tokens that might have been proposed in place of one that was: what a correction may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.engine.columns import Columns
from outrider.engine.leaders import leaders

COUPLED_DECAY = 0.7
"""How likely the next of log q + g is to be the target's choice, beside the one before."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another token for the place of a drafted one. `weight`: how likely it is beside others."""

    token_id: int
    weight: float


def likely_alternatives(
    draft_probs: torch.Tensor, token_ids: Sequence[int], *, columns: Columns, count: int
) -> list[tuple[Alternative, ...]]:
    """The `count` most likely tokens of each row, [rows, columns], but not the one named."""
    if not count:
        return [()] * len(token_ids)
    probs, places = leaders(draft_probs, min(count + 1, len(columns)))
    beside = zip(token_ids, columns.token_ids(places).tolist(), probs.tolist(), strict=True)
    return [
        tuple(
            Alternative(other, prob)
            for other, prob in zip(ids, row, strict=True)
            if other != token_id and prob > 0.0
        )[:count]
        for token_id, ids, row in beside
    ]


def coupled_alternatives(order: Sequence[int]) -> tuple[Alternative, ...]:
    """Those behind the first of the order of log q + g."""
    return tuple(Alternative(other, COUPLED_DECAY**place) for place, other in enumerate(order[1:]))
