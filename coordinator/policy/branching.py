"""How many side branches pay, and how often they are hit."""

from __future__ import annotations

from collections.abc import Sequence

SHARES = (0.16, 0.12, 0.065, 0.065)
"""How often the draft's second, third, … choice is the target's token when its first is not, as
measured on the embedded pair."""
CHOICES = (0, 1, 2, 4, 8, 16)
TRUST = 20.0
"""Misses' worth of trust in those shares."""
MEMORY = 200.0


class HitRate:
    """How often a branch held what the target chose, against what the shares say."""

    def __init__(self) -> None:
        self._hits = 0.0
        self._expected = 0.0

    @property
    def factor(self) -> float:
        """By experience ÷ by the shares."""
        return (self._hits + TRUST * SHARES[0]) / (self._expected + TRUST * SHARES[0])

    def missed(self, *, expected: float, hits: int) -> None:
        """The target went another way, and a branch was there or not."""
        keep = 1.0 - 1.0 / MEMORY
        self._expected = keep * self._expected + expected
        self._hits = keep * self._hits + hits


def hit_chances(survival: Sequence[float], length: int) -> list[float]:
    """Entry b: probability that b side branches hold the correction of a round with that many
    draft tokens, once one is needed; the best b places and choices are taken."""
    before = [1.0, *survival]
    misses = [before[place] - before[place + 1] for place in range(length)]
    total = max(1e-9, sum(misses))
    ranked = sorted((miss * share for miss in misses for share in SHARES), reverse=True)
    chances = [0.0]
    for chance in ranked[: CHOICES[-1]]:
        chances.append(chances[-1] + chance / total)
    chances.extend([chances[-1]] * (CHOICES[-1] + 1 - len(chances)))
    return chances


def best_count(chances: Sequence[float], *, miss: float, lead: float, row_cost: float) -> int:
    """How many branches earn the most.

    `miss`: how likely a round is to miss; `lead`: what being ready is worth then; `row_cost`: what
    one branch takes from everybody. Both in output tokens.
    """
    return max(CHOICES, key=lambda count: (miss * chances[count] * lead - row_cost * count, -count))
