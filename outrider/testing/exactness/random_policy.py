"""A policy that goes by chance: every mode of a round, each next to each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy import GenerationPolicy
from coordinator.policy.patience import Patience
from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """What each round draws from. Every list is drawn from evenly.

    `patience_s`: how long the round waits for draft tokens, all waits together; 0: it takes what
    has arrived.
    """

    draft_length: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    ahead: tuple[int, ...] = (0, 1, 3)
    branches: tuple[int, ...] = (0, 2, 4)
    branch_length: tuple[int, ...] = (0, 1, 2)
    patience_s: tuple[float, ...] = (0.0, 0.02, 1.0, 1.0)
    acceptance: tuple[float, ...] = (0.0, 0.3, 0.9)
    run: tuple[int, ...] = (0, 1, 3)
    copies: tuple[int, ...] = (0, 2, 6)


class RandomPolicy:
    """Draws everything from a generator of its own, which knows nothing of any token."""

    def __init__(self, chances: Chances, random: Random) -> None:
        self._chances = chances
        self._random = random
        self._patience = Patience(time.monotonic, 0.0)

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """None is worth a note."""
        return []

    def plan(self, situation: Situation) -> DraftPlan:
        """Another for each round."""
        chances, choice = self._chances, self._random.choice
        room, draft_ready = situation.room, situation.draft_ready
        self._patience = Patience(time.monotonic, choice(chances.patience_s))
        length = min(choice(chances.draft_length), room) if draft_ready else 0
        plan = DraftPlan(
            length,
            ahead=max(0, min(choice(chances.ahead), room - length)) if draft_ready else 0,
            branches=choice(chances.branches),
            branch_length=choice(chances.branch_length),
            acceptance=choice(chances.acceptance),
            run=choice(chances.run),
        )
        if situation.copying is None:
            return plan
        together = 0 if length else self._random.randrange(2)
        return replace(plan, copies=choice(chances.copies), together=together)

    def copies(self, *, drawn: int, run: int) -> int:
        """Another number for each round."""
        return self._random.choice(self._chances.copies)

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """What is left of the round's, as long as a token may still come."""
        return 0.0 if math.isinf(next_in_s) else self._patience.left_s

    def round(self, facts: RoundFacts) -> None:
        """Nothing depends on it."""

    def drafted(self, facts: DraftFacts) -> None:
        """Nothing depends on it."""

    def foresaw(self, facts: ForesightFacts) -> None:
        """Nothing depends on it."""


def random_policies(
    chances: Chances, *, seed: int = 0
) -> Callable[[SpeculationTerms], GenerationPolicy]:
    """Makes the policy of one generation after the other, whatever its terms."""
    numbers = count()

    def make(terms: SpeculationTerms) -> GenerationPolicy:
        return RandomPolicy(chances, Random(f"{seed} {next(numbers)}"))

    return make
