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
    draft_probs: torch.Tensor, token_id: int, *, columns: Columns, count: int
) -> tuple[Alternative, ...]:
    """The `count` most likely tokens of `draft_probs` [columns], that one apart."""
    if not count:
        return ()
    probs, places = leaders(draft_probs[None], min(count + 1, len(columns)))
    ids = columns.token_ids(places[0]).tolist()
    others = [
        Alternative(other, prob)
        for other, prob in zip(ids, probs[0].tolist(), strict=True)
        if other != token_id and prob > 0.0
    ]
    return tuple(others[:count])


def coupled_alternatives(order: Sequence[int]) -> tuple[Alternative, ...]:
    """Those behind the first of the order of log q + g."""
    return tuple(Alternative(other, COUPLED_DECAY**place) for place, other in enumerate(order[1:]))
