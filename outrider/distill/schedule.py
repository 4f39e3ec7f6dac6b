"""How large steps are: warm-up, a long level stretch, a short way down.

The way down is what makes a draft good, and the level stretch can be gone on with at any time
(Hu et al., 2024, https://arxiv.org/abs/2404.06395).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WARM_UP = 0.02
COOL_DOWN = 0.25
"""Shares of all tokens."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """By tokens that were learnt from, of `tokens` in all."""

    rate: float
    tokens: int

    @property
    def cools_from(self) -> int:
        """Tokens after which steps grow smaller."""
        return self.tokens - int(self.tokens * COOL_DOWN)

    def cooling_from(self, tokens: int) -> Schedule:
        """One whose way down begins after `tokens`."""
        return Schedule(self.rate, math.ceil(tokens / (1.0 - COOL_DOWN)))

    def rate_at(self, tokens: int) -> float:
        """The learning rate of the step after `tokens`."""
        warm = max(1, int(self.tokens * WARM_UP))
        if tokens < warm:
            return self.rate * (tokens + 1) / warm
        left = (self.tokens - tokens) / max(1, self.tokens - self.cools_from)
        return self.rate * max(0.0, min(1.0, left))
