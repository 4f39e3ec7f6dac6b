"""Pauses before the next attempt, longer after each failure."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_S = 0.25
LONGEST_S = 5.0


class Backoff:
    """Doubles its pauses until something succeeds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._pause_s = FIRST_S
        self._until = 0.0

    @property
    def over(self) -> bool:
        """Another attempt may be made."""
        return self._clock() >= self._until

    @property
    def left_s(self) -> float:
        """Seconds until then."""
        return max(0.0, self._until - self._clock())

    def failed(self) -> None:
        """Begins a pause. What fails during a pause began before it, and says nothing new."""
        if not self.over:
            return
        self._until = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_S)

    def succeeded(self) -> None:
        """The pause is over, and the next one is short again."""
        self._pause_s, self._until = FIRST_S, 0.0
