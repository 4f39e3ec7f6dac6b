"""Beside which drafted tokens a side branch is most likely to be needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from draft_service.alternatives import Alternative

USUAL_ACCEPTANCE = 0.6
"""Assumed where the caller has not measured it."""
SHARE_OF_PLACE = 4
"""One place takes a branch of so many: the next places, which are not drawn yet, need some too."""
MOST_BESIDE = 4
"""More beside one token come true too seldom."""
WORTH = 0.1
"""One that is needed less often than the most needed, by this factor, is left out."""


@dataclass(slots=True)
class Place:
    """One place of the chain: what its token hangs on, what else may come there, and which of
    that was sent already."""

    parent: int | None
    alternatives: Sequence[Alternative] = ()
    guesses: set[int] = field(default_factory=set)


def likeliest(
    places: Sequence[Place], *, free: int, branches: int, acceptance: float
) -> list[tuple[int, int]]:
    """At most `free` of those most likely to be needed: places, counted from 0, and token ids.

    One at place i is needed when the tokens before it are accepted and the one beside it is not.
    `branches`: most that grow at a time. Those that were sent already are not returned.
    """
    if free <= 0:
        return []
    acceptance = acceptance or USUAL_ACCEPTANCE
    beside = max(1, min(MOST_BESIDE, branches // SHARE_OF_PLACE))
    weighted = [
        (alternative.weight * acceptance**place, place, alternative.token_id)
        for place, each in enumerate(places)
        for alternative in each.alternatives[:beside]
    ]
    least = WORTH * max((weight for weight, _, _ in weighted), default=0.0)
    wanted = sorted(
        (-weight, place, token_id)
        for weight, place, token_id in weighted
        if weight >= least and token_id not in places[place].guesses
    )
    return [(place, token_id) for _, place, token_id in wanted[:free]]
