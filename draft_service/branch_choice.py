"""Beside which drafted tokens a side branch is most likely to be needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from draft_service.alternatives import Alternative

USUAL_ACCEPTANCE = 0.6
"""Assumed where the caller has not measured it."""


@dataclass(slots=True)
class Place:
    """One place of the chain: what its token hangs on, what else may come there, and which of
    that was sent already."""

    parent: int | None
    alternatives: Sequence[Alternative] = ()
    guesses: set[int] = field(default_factory=set)


def likeliest(places: Sequence[Place], *, count: int, acceptance: float) -> list[tuple[int, int]]:
    """The places, counted from 0, and token ids of the alternatives most likely to be needed.

    One at place i is needed when the tokens before it are accepted and the one beside it is not.
    Those that were sent already are among the `count`, but not in what is returned.
    """
    acceptance = acceptance or USUAL_ACCEPTANCE
    weighted = [
        (-alternative.weight * acceptance**place, place, alternative.token_id)
        for place, each in enumerate(places)
        for alternative in each.alternatives
        if alternative.token_id not in each.guesses
    ]
    left = count - sum(len(each.guesses) for each in places)
    return [(place, token_id) for _, place, token_id in sorted(weighted)[: max(0, left)]]
