"""Whether a draft's tokens are drawn from the laws that it reports.

If they are, a judged token is accepted with probability Σ min(p, q), which the target knows. The
sum of what was accepted less what was to be expected is then a martingale; its distance from 0 in
standard deviations is z. That finds drafts whose tokens fit the target better or worse than their
laws say. One that forges its laws to steer the output without changing how often it is accepted is
not found by it: docs/security.md.
"""

from __future__ import annotations

import math

LARGEST_Z = 6.0
"""By chance alone one honest draft in 500 million is beyond it at a given moment."""
MEMORY = 1 / 20_000
"""What one token takes from the weight of those before it: a draft that turns dishonest after
millions of tokens is not covered by them."""
LARGEST_CHANCE = 1.001
"""Of rounding: a sum of float32 probabilities."""
LEAST_VARIANCE = 4.0
"""That of some twenty tokens: less is taken for as much, as sums of few chances are not normal."""


class Honesty:
    """The running z of one draft replica, over all its tokens and over the latest."""

    def __init__(self) -> None:
        self._all = _Excess(forget=0.0)
        self._latest = _Excess(forget=MEMORY)
        self._trusted = True

    @property
    def trusted(self) -> bool:
        """It has never been beyond the bound. What was found stands, also for a process that takes
        the place of this one, as long as the address is one of the pool's."""
        return self._trusted

    @property
    def z(self) -> float:
        """Of the two, the one further from 0. Above 0: accepted more often than expected."""
        return max(self._all.z, self._latest.z, key=abs)

    def judged(self, chance: float, *, accepted: bool) -> None:
        """Takes one token that was judged. `chance`: how likely it was to be accepted."""
        if not 0.0 <= chance <= LARGEST_CHANCE:
            return
        for excess in (self._all, self._latest):
            excess.add(float(accepted), min(chance, 1.0))
        self._trusted = self._trusted and abs(self.z) <= LARGEST_Z


class _Excess:
    """Accepted less expected, and its variance; earlier tokens fade by `forget` for each."""

    def __init__(self, *, forget: float) -> None:
        self._keep = 1.0 - forget
        self._excess = 0.0
        self._variance = 0.0

    @property
    def z(self) -> float:
        """In standard deviations."""
        return self._excess / math.sqrt(max(self._variance, LEAST_VARIANCE))

    def add(self, accepted: float, chance: float) -> None:
        """Takes one token."""
        self._excess = self._keep * self._excess + accepted - chance
        self._variance = self._keep**2 * self._variance + chance * (1.0 - chance)
