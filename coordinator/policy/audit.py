"""Whether speculation earns what the model of it says."""

from __future__ import annotations

TRUST = 40.0
"""Output tokens' worth of trust in the model."""
MEMORY = 300.0
"""Output tokens that are remembered."""
LEAST, MOST = 0.5, 1.1


class Audit:
    """Compares tokens earned with tokens promised, over the time spent speculating."""

    def __init__(self) -> None:
        self._earned = 0.0
        self._promised = 0.0

    @property
    def factor(self) -> float:
        """What a promised token is worth, by experience."""
        factor = (self._earned + TRUST) / (self._promised + TRUST)
        return min(MOST, max(LEAST, factor))

    def add(self, *, earned: float, promised: float) -> None:
        """A round: tokens that came, and those that were expected in its time."""
        if promised <= 0.0:
            return
        keep = max(0.0, 1.0 - promised / MEMORY)
        self._earned = keep * self._earned + earned
        self._promised = keep * self._promised + promised
