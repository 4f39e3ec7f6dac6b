"""A linear axis with round marks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values from `low` to `high` to places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies; values beyond the axis lie at its end."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def marks(self, most: int = 5) -> Iterator[float]:
        """Round values on the axis, at most `most` of them and one."""
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        for count in range(first, last + 1):
            yield count * step


def axis_from_zero(largest: float, start: float, end: float) -> Axis:
    """From 0 to a little beyond the largest value."""
    return Axis(0.0, largest * 1.08 if largest > 0 else 1.0, start, end)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return power * next(step for step in STEPS if step * power >= least * (1 - 1e-9))
