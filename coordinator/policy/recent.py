"""Means that forget, and what is usual among what came last."""

from __future__ import annotations

from collections import deque
from statistics import fmean

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

    def value(self, default: float) -> float:
        """The mean; `default` while there is none."""
        return self._mean if self._count else default

    def add(self, value: float) -> None:
        """Takes in a value, at least 0."""
        self._count += 1
        if self._count > 1:
            value = min(value, OUTLIER * self._mean) if self._mean > 0 else value
        self._mean += max(self._step, 1.0 / self._count) * (value - self._mean)


class Lowest:
    """About the lowest of recent values: falls at once by a part, and rises slowly."""

    FALL, RISE = 0.2, 0.002

    def __init__(self) -> None:
        self._value: float | None = None

    def value(self, default: float) -> float:
        """Where it is; `default` before the first value."""
        return default if self._value is None else self._value

    def add(self, value: float) -> None:
        """Takes in a value."""
        if self._value is None:
            self._value = value
        self._value += (self.FALL if value < self._value else self.RISE) * (value - self._value)


class Usual:
    """The mean of the middle half of the last few values: a stall now and then says nothing, what
    is now so and now so counts for both."""

    def __init__(self, count: int) -> None:
        self._values: deque[float] = deque(maxlen=count)
        self._usual: float | None = None

    @property
    def known(self) -> bool:
        """There has been a value."""
        return bool(self._values)

    def value(self, default: float) -> float:
        """What is usual; `default` while there is no value."""
        if not self._values:
            return default
        if self._usual is None:
            cut = (len(self._values) + 1) // 4
            self._usual = fmean(sorted(self._values)[cut : len(self._values) - cut])
        return self._usual

    def add(self, value: float) -> None:
        """Takes in a value."""
        self._values.append(value)
        self._usual = None
