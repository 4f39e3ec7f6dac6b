"""A mean that forgets."""

from __future__ import annotations

OUTLIER = 4.0
"""A value counts up to this many times the mean: a stall says little of what comes next."""


class Recent:
    """The mean of recent values; each new one weighs `step`, the first ones more."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._count = 0
        self._mean = 0.0

    @property
    def known(self) -> bool:
        """There has been a value."""
        return self._count > 0

    @property
    def count(self) -> int:
        """How many values there were."""
        return self._count

    def value(self, default: float) -> float:
        """The mean; `default` while there is none."""
        return self._mean if self._count else default

    def add(self, value: float) -> None:
        """Takes in a value, at least 0."""
        self._count += 1
        if self._count > 1:
            value = min(value, OUTLIER * self._mean) if self._mean > 0 else value
        self._mean += max(self._step, 1.0 / self._count) * (value - self._mean)
