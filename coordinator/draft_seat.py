"""Which draft one generation is with, and which is next when that one fails or has to be left."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.backoff import Backoff
from coordinator.placement import Placement
from coordinator.replica import Replica

MOST_MISSED = 2
"""Waits in vain, by anyone and without a token in time between them, after which another draft is
tried if there is one."""


class DraftSeat:
    """At most one draft at a time. Where one fails, another is tried at once; those that failed,
    with no token of use since, are tried again after a pause, longer each time."""

    def __init__(self, placement: Placement, *, clock: Callable[[], float]) -> None:
        """`placement`: the drafts that fit. `clock` gives the seconds that pauses go by."""
        self._placement = placement
        self._backoff = Backoff(clock)
        self._failed: set[Replica] = set()
        self._last: Replica | None = None
        self.replica: Replica | None = None
        """Where the generation is."""
        self.replica_id = ""
        """The process it found there."""
        self.trusted = True
        """What that one reported was believed when the generation came."""
        self.moves = 0
        """Times that another draft took the place of one that failed or was left."""

    @property
    def ready(self) -> bool:
        """There is a draft that may be asked."""
        if self.replica is not None and self._placement.holds(self.replica):
            return True
        return self.next() is not None

    def next(self) -> Replica | None:
        """The draft to go to; None: nowhere, for now."""
        replica = self._placement.best(besides=self._failed)
        return replica if replica not in self._failed or self._backoff.over else None

    def take(self) -> Replica | None:
        """Goes to the next draft, with the right to open one stream there; None: nowhere."""
        replica = self.next()
        if replica is None or not replica.openings.take_now():
            return None
        if replica is not self._last:
            self.moves += self._last is not None
        replica.enter()
        self.replica = self._last = replica
        self.replica_id = replica.model.replica_id
        self.trusted = replica.honesty.trusted
        return replica

    @property
    def has_another(self) -> bool:
        """There is another draft to go to."""
        besides = self._failed if self.replica is None else {*self._failed, self.replica}
        other = self._placement.best(besides=besides)
        return other is not None and other not in besides

    @property
    def is_to_be_left(self) -> bool:
        """Its draft is about to end, fits no longer, or is not believed any more."""
        replica = self.replica
        if replica is None:
            return False
        return not self._placement.holds(replica) or not self.believed

    @property
    def believed(self) -> bool:
        """As it was when the generation came."""
        return self.replica is None or self.replica.honesty.trusted == self.trusted

    def missed(self) -> bool:
        """A wait was in vain: whether that is reason to go to another draft."""
        replica = self.replica
        return replica is not None and replica.missed() >= MOST_MISSED and self.has_another

    def served(self, *, in_time: bool) -> None:
        """Tokens of use came. `in_time`: nobody had waited for them in vain."""
        self._backoff.succeeded()
        self._failed.clear()
        if self.replica is not None:
            self.replica.breaker.succeeded()
            if in_time:
                self.replica.in_time()

    def fail(self, *, rest: bool) -> None:
        """Its draft failed. `rest`: other generations keep away from it too."""
        replica = self.replica
        self._backoff.failed()
        if replica is not None:
            self.leave()
            self._failed.add(replica)
            replica.failed(rest=rest)

    def leave(self) -> None:
        """Is with no draft any more."""
        if self.replica is not None:
            self.replica.leave()
        self.replica = None
