"""How likely draft tokens are to be accepted, by their place in the round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Protocol

from coordinator.policy.outcomes import Outcome

STATED = 0.6
"""Chance of acceptance that is assumed where nothing is known."""
AFTER_CHANGE = 0.2
"""What is assumed, lightly, once it is seen that the chance is another than it was."""
LOWEST, HIGHEST = 0.005, 0.995
PLACE_WEIGHT = 12.0
"""Tokens' worth of trust that a place is like all others."""


class Prior(Protocol):
    """What is believed before there is evidence."""

    def hazard(self, place: int) -> float:
        """Chance that the token at a place, 0 the first, is accepted once those before are."""
        ...

    @property
    def overall(self) -> float:
        """The same over all places."""
        ...


class Assumed:
    """A prior that is stated: the same at every place."""

    def __init__(self, overall: float = STATED) -> None:
        self._overall = overall

    @property
    def overall(self) -> float:
        """The stated chance."""
        return self._overall

    def hazard(self, place: int) -> float:
        """The stated chance."""
        return self._overall


class Acceptance:
    """Chances measured by place: evidence fades, and counts beside what a prior says."""

    def __init__(self, prior: Prior, *, weight: float, memory: float) -> None:
        """`weight`: how many tokens of evidence the prior is worth. `memory`: how many rounds."""
        self._prior = self._usual = prior
        self._weight = self._usual_weight = weight
        self._keep = 1.0 - 1.0 / memory
        self._accepted: list[float] = []
        self._judged: list[float] = []
        self._sum_accepted = 0.0
        self._sum_judged = 0.0

    @property
    def overall(self) -> float:
        """Chance of acceptance over all places."""
        return (self._sum_accepted + self._weight * self._prior.overall) / (
            self._sum_judged + self._weight
        )

    def hazard(self, place: int) -> float:
        """Chance that the token at a place is accepted once those before are."""
        usual = self._prior.hazard(place) * self.overall / self._prior.overall
        if place >= len(self._judged):
            return _within(usual)
        return _within(
            (self._accepted[place] + PLACE_WEIGHT * usual) / (self._judged[place] + PLACE_WEIGHT)
        )

    def survival(self, longest: int) -> list[float]:
        """Entry i: probability that the first i + 1 tokens are all accepted."""
        return list(accumulate((self.hazard(place) for place in range(longest)), mul))

    def judged(self, outcomes: Sequence[Outcome]) -> None:
        """A round's verdict, in the order of places."""
        self._fade()
        for place, accepted in outcomes:
            missing = place + 1 - len(self._judged)
            self._judged.extend([0.0] * missing)
            self._accepted.extend([0.0] * missing)
            self._judged[place] += 1.0
            self._accepted[place] += accepted
            self._sum_judged += 1.0
            self._sum_accepted += accepted

    def compared(self, *, accepted: bool) -> None:
        """A token that was not judged, and whether it is what the target chose."""
        self._fade()
        self._sum_judged += 1.0
        self._sum_accepted += accepted

    def begin_anew(self, *, tokens: int, accepted: int) -> None:
        """The world has changed: only that evidence is left, and little trust in what was; unless
        what has come back is what others see."""
        share = accepted / tokens
        self._prior, self._weight = Assumed(AFTER_CHANGE), 1.0
        if 1.5 * abs(share - self._usual.overall) < abs(share - AFTER_CHANGE):
            self._prior, self._weight = self._usual, self._usual_weight
        self._judged, self._accepted = [], []
        self._sum_judged, self._sum_accepted = float(tokens), float(accepted)

    def _fade(self) -> None:
        self._judged = [self._keep * one for one in self._judged]
        self._accepted = [self._keep * one for one in self._accepted]
        self._sum_judged *= self._keep
        self._sum_accepted *= self._keep


def _within(chance: float) -> float:
    return min(HIGHEST, max(LOWEST, chance))
