"""Notices when acceptance is no longer what it was."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator.policy.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Evidence:
    """The latest rounds that speak for a change."""

    tokens: int
    accepted: int


@dataclass(frozen=True, slots=True)
class _Round:
    tokens: int
    accepted: int
    expected: float
    """How many were believed to be accepted."""
    likelihood: float
    """Logarithm of what was believed of it."""


class ChangeWatch:
    """A generalised likelihood ratio over the latest rounds (Lorden 1971).

    Over each number of latest rounds it compares how likely they were by what is believed with how
    likely they would have been by the chance that fits them best.
    """

    def __init__(self, *, drop: float, rise: float, tokens: int, rounds: int) -> None:
        """`drop`, `rise`: logarithms of the ratio that is taken for a change to less or to more,
        on at least so many tokens of at most so many rounds."""
        self._drop = drop
        self._rise = rise
        self._tokens = tokens
        self._rounds: deque[_Round] = deque(maxlen=rounds)

    def judged(
        self,
        outcomes: Sequence[Outcome],
        *,
        hazard: Callable[[int], float],
        stubborn: float = 0.0,
    ) -> Evidence | None:
        """Takes in a verdict; the rounds that show a change, if they do now.

        `hazard`: what was believed of each place. `stubborn` is added to both thresholds.
        """
        chances = [(hazard(place), accepted) for place, accepted in outcomes]
        self._rounds.append(
            _Round(
                tokens=len(chances),
                accepted=sum(accepted for _, accepted in chances),
                expected=sum(chance for chance, _ in chances),
                likelihood=sum(math.log(p if accepted else 1.0 - p) for p, accepted in chances),
            )
        )
        tokens = right = 0
        believed = expected = 0.0
        for one in reversed(self._rounds):
            tokens += one.tokens
            right += one.accepted
            expected += one.expected
            believed += one.likelihood
            ratio = _best_likelihood(tokens, right) - believed
            threshold = self._drop if right < expected else self._rise
            if tokens >= self._tokens and ratio > threshold + stubborn:
                self._rounds.clear()
                return Evidence(tokens, right)
        return None


def _best_likelihood(tokens: int, right: int) -> float:
    """Of the chance that fits best, drawn a little to the middle: few tokens prove little."""
    chance = (right + 0.5) / (tokens + 1.0)
    return right * math.log(chance) + (tokens - right) * math.log(1.0 - chance)
