"""How far a mean ratio may be off, by drawing from the measured ones again and again."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

DRAWS = 4000


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive ratios."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def upper_bound(ratios: Sequence[float], *, confidence: float = 0.95, draws: int = DRAWS) -> float:
    """What the geometric mean of such ratios is below with that confidence (percentile method)."""
    generator = random.Random(1)
    means = sorted(geometric_mean(generator.choices(ratios, k=len(ratios))) for _ in range(draws))
    return means[math.ceil(confidence * draws) - 1]
