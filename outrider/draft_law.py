"""The law that a draft token was drawn from, exact in integers, and the draw itself."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from outrider.randomness import below

MAX_CANDIDATES = 256
MAX_WEIGHT = 65535


@dataclass(frozen=True, slots=True)
class CutLaw:
    """q over a few ids: `weights[i]` ÷ the sum of all weights, zero for every other id.

    Lawful when it has 1 to 256 different ids and as many weights, each 1 to 65535.
    """

    token_ids: tuple[int, ...]
    weights: tuple[int, ...]

    def draw(self, word: int) -> int:
        """The id that 64 random bits stand for: an integer below the sum of weights, looked up
        in their cumulative sum in listed order."""
        bounds = list(accumulate(self.weights))
        return self.token_ids[bisect_right(bounds, below(word, bounds[-1]))]


@dataclass(frozen=True, slots=True)
class PointMass:
    """q is 1 on the proposed token: it was chosen, not drawn, or is to be judged as if it were."""


POINT_MASS = PointMass()

DraftLaw = CutLaw | PointMass
