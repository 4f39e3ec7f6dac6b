"""Whether speculation earns what the model of it says."""

from __future__ import annotations

import math
from collections.abc import Callable

TRUST = 40.0
"""Output tokens' worth of trust in the model."""
MEMORY = 300.0
"""Output tokens that are remembered."""
HALF_LIFE_S = 5.0
"""What is not seen again is half forgotten after that."""
LEAST, MOST = 0.5, 1.0


class Audit:
    """Compares tokens earned with tokens promised, over the time spent speculating."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._earned = 0.0
        self._promised = 0.0
        self._last_at = clock()

    @property
    def factor(self) -> float:
        """What a promised token is worth, by experience."""
        kept = math.pow(0.5, (self._clock() - self._last_at) / HALF_LIFE_S)
        factor = (kept * self._earned + TRUST) / (kept * self._promised + TRUST)
        return min(MOST, max(LEAST, factor))

    def add(self, *, earned: float, promised: float) -> None:
        """A round: tokens that came, and those that were expected in its time, both shared among
        those who were decided together."""
        if promised <= 0.0:
            return
        keep = max(0.0, 1.0 - promised / MEMORY)
        self._earned = keep * self._earned + earned
        self._promised = keep * self._promised + promised
        self._last_at = self._clock()
