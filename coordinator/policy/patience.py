"""The longest that a round waits, whatever it waits for."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """Runs out once for each round, from the first time it is asked for."""

    def __init__(self, clock: Callable[[], float], longest_s: float) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._since: float | None = None

    def begin_round(self) -> None:
        """A new round has all of it."""
        self._since = None

    @property
    def spent_s(self) -> float:
        """How long the round has waited by now."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since

    @property
    def left_s(self) -> float:
        """What is left of it now."""
        return max(0.0, self._longest_s - self.spent_s)
