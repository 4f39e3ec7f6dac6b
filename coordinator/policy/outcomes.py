"""What became of draft tokens, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from coordinator.draft_plan import RoundFacts


class Outcome(NamedTuple):
    """A token at a place, 0 the first, was judged."""

    place: int
    accepted: bool


def in_a_row(*, drafted: int, accepted: int) -> list[Outcome]:
    """Those of so many tokens, which are judged up to the first that is rejected."""
    places = min(drafted, accepted + 1)
    return [Outcome(place, place < accepted) for place in range(places)]


def of_drawn(facts: RoundFacts) -> list[Outcome]:
    """Those of a round's tokens that were drawn, by their place in the round."""
    return [outcome for outcome, run in _judged(facts) if run is None]


def of_copied(facts: RoundFacts) -> list[Outcome]:
    """Those of its copied tokens, by how many copied ones, output included, lie right before."""
    return [Outcome(run, outcome.accepted) for outcome, run in _judged(facts) if run is not None]


def _judged(facts: RoundFacts) -> Iterator[tuple[Outcome, int | None]]:
    run = facts.run
    for outcome in in_a_row(drafted=facts.drafted, accepted=facts.accepted):
        copied = outcome.place < len(facts.copied) and facts.copied[outcome.place]
        yield outcome, run if copied else None
        run = run + 1 if copied else 0
