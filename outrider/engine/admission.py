"""The line of works that wait for KV state: who is next, and who waits no longer."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from outrider.errors import Exhausted

RETRY_AFTER_S = 1.0

WorkT = TypeVar("WorkT")


@dataclass(order=True, frozen=True, slots=True)
class _Place(Generic[WorkT]):
    new: bool
    arrived: float
    since: float = field(compare=False)
    work: WorkT = field(compare=False)


class WaitingLine(Generic[WorkT]):
    """Works without KV state: first those that had some and lost it, then by arrival.

    Times are seconds of one clock, the caller's.
    """

    def __init__(self, *, longest: int, wait_s: float) -> None:
        """`longest`: how many new works may wait. `wait_s`: how long one may.

        Works that had state and lost it wait as long as it takes: their generations have begun.
        """
        self._longest = longest
        self._wait_s = wait_s
        self._places: dict[WorkT, _Place[WorkT]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, work: object) -> bool:
        return work in self._places

    def in_turn(self) -> list[WorkT]:
        """All, in the order of their turns."""
        return [place.work for place in sorted(self._places.values())]

    def may_be_passed(self, work: WorkT, now: float) -> bool:
        """Whether others that fit go first for now.

        One that lost its state is often long: it does not hold the others up, for as long as a
        new one would wait. From then on everybody waits for it.
        """
        place = self._places[work]
        return not place.new and now - place.since < self._wait_s

    @property
    def deadline(self) -> float | None:
        """When somebody will have waited too long."""
        waits = [place.since for place in self._places.values() if place.new]
        return min(waits) + self._wait_s if waits else None

    def enter(self, work: WorkT, *, replay: bool, arrived: float, now: float) -> None:
        """Gives the work a place. `replay`: it had state and lost it to an older one."""
        self._places[work] = _Place(not replay, arrived, now, work)

    def leave(self, work: WorkT) -> None:
        """Takes its place away, if it has one."""
        self._places.pop(work, None)

    def keep(self, works: Container[WorkT]) -> None:
        """Takes the places of all others away."""
        for work in [work for work in self._places if work not in works]:
            self.leave(work)

    def refuse(self, now: float) -> list[tuple[WorkT, Exhausted]]:
        """New works that have waited too long, and the last of them where they are too many.

        They leave the line.
        """
        refused = [
            (place.work, _exhausted(f"no room for KV state came free within {self._wait_s:g} s"))
            for place in self._places.values()
            if place.new and now - place.since >= self._wait_s
        ]
        for work, _ in refused:
            self.leave(work)
        new = sum(place.new for place in self._places.values())
        if new > self._longest:
            for place in sorted(self._places.values())[self._longest - new :]:
                refused.append((place.work, _exhausted("too many rounds wait for KV state")))
                self.leave(place.work)
        return refused


def _exhausted(message: str) -> Exhausted:
    return Exhausted(message, retry_after_s=RETRY_AFTER_S)
