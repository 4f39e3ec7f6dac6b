"""How much one more of something adds, from values seen with more and with less of it."""

from __future__ import annotations

STEP = 0.01
TRUST = 4.0
"""Variance of the input that counts as much as what is assumed."""
OUTLIER = 2.0
"""A value counts up to this many times the mean: one that took longer waited for something else."""


class Slope:
    """A line through recent values, by least squares that forget; an assumed slope at first."""

    def __init__(self, assumed: float) -> None:
        """`assumed`: what one more adds, as a part of the mean value."""
        self._assumed = assumed
        self._count = 0
        self._input = self._value = self._square = self._product = 0.0

    @property
    def relative(self) -> float:
        """What one more adds, as a part of the mean value; at least 0."""
        if self._value <= 0.0:
            return self._assumed
        variance = max(0.0, self._square - self._input**2)
        covariance = self._product - self._input * self._value
        return max(0.0, (covariance / self._value + TRUST * self._assumed) / (variance + TRUST))

    def add(self, *, amount: float, value: float) -> None:
        """A value that was seen with that much."""
        self._count += 1
        if self._value:
            value = min(value, OUTLIER * self._value)
        step = max(STEP, 1.0 / self._count)
        self._input += step * (amount - self._input)
        self._value += step * (value - self._value)
        self._square += step * (amount * amount - self._square)
        self._product += step * (amount * value - self._product)
