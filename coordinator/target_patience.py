"""How long one generation goes on after targets that did not do it."""

from __future__ import annotations

import time

from coordinator.replica import Replica
from outrider.errors import Exhausted, InternalFailure, OutriderError, PoolUnavailable

LOST, FULL, FAILED = PoolUnavailable.reason, Exhausted.reason, InternalFailure.reason
"""Why a target did not do it, where another may."""
MOST_LOSSES = 4
"""Targets that may be lost in a row without a token in between: it may be the request that does
it. So many are asked for room by a generation that has not begun."""


class TargetPatience:
    """Remembers what went wrong since the last token."""

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: how long a generation that has begun waits for a target that is full."""
        self._wait_s = wait_s
        self._begun = False
        self._losses = 0
        self._full_since = 0.0
        self.tried: set[Replica] = set()
        """The targets that did not do it."""

    def served(self) -> None:
        """A token came."""
        self._begun = True
        self._losses, self._full_since = 0, 0.0
        self.tried.clear()

    def lasts(self, error: OutriderError, *, alone: bool) -> bool:
        """Whether to go on after one more error. `alone`: all targets there are were tried.

        Want of room is no fault of the target's: a generation that has begun waits for it, another
        asks each target once.
        """
        if error.reason != FULL:
            self._losses += 1
            return self._losses < MOST_LOSSES and not (alone and error.reason == FAILED)
        if self._begun:
            now = time.perf_counter()
            self._full_since = self._full_since or now
            return now - self._full_since < self._wait_s
        return len(self.tried) < MOST_LOSSES and not alone
