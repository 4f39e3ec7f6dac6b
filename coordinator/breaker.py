"""Keeps a replica that failed away from generations, and lets one of them try it again."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator.backoff import Backoff

TRIAL_S = 2.0
"""How long one generation tries alone before another may."""


class Breaker:
    """Closed while all is well. A failure opens it for a pause, longer each time; then one
    generation at a time tries, until one succeeds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._pause = Backoff(clock)
        self._failed = False
        self._tried_until = 0.0

    @property
    def closed(self) -> bool:
        """It has not failed since it last succeeded."""
        return not self._failed

    @property
    def admits(self) -> bool:
        """A generation may be sent there."""
        return not self._failed or (self._pause.over and self._clock() >= self._tried_until)

    @property
    def resting_s(self) -> float:
        """Seconds until somebody may try it; 0: at once."""
        if not self._failed:
            return 0.0
        return max(0.0, self._pause.left_s, self._tried_until - self._clock())

    def entered(self) -> None:
        """A generation was sent there: while the breaker is open, it is the one that tries."""
        if self._failed:
            self._tried_until = self._clock() + TRIAL_S

    def failed(self) -> None:
        """It failed a generation."""
        self._failed, self._tried_until = True, 0.0
        self._pause.failed()

    def succeeded(self) -> None:
        """It served one."""
        if self._failed:
            self._failed = False
            self._pause.succeeded()
