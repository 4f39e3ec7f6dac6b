"""Policies that keep what each round of a generation showed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy import GenerationPolicy, PoolPolicy
from outrider.v1 import generation_pb2

MARK = "RECORDED"

PolicyMaker = Callable[[SpeculationTerms], GenerationPolicy]
"""The policy of one more generation."""


class RecordedPolicy:
    """Does as another policy does. Its number is the last of its changes, and so in the summary."""

    def __init__(self, policy: GenerationPolicy, number: int) -> None:
        self._policy = policy
        self._number = number
        self.rounds: list[RoundFacts] = []
        """All rounds but the first, which reads the prompt."""

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """The other's, and the number."""
        mark = generation_pb2.DraftLengthChange(reason=f"{MARK} {self._number}")
        return [*self._policy.changes, mark]

    def plan(self, situation: Situation) -> DraftPlan:
        """The other's."""
        return self._policy.plan(situation)

    def copies(self, *, drawn: int, run: int) -> int:
        """The other's."""
        return self._policy.copies(drawn=drawn, run=run)

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """The other's."""
        return self._policy.patience_s(tokens=tokens, next_in_s=next_in_s)

    def round(self, facts: RoundFacts) -> None:
        """Kept."""
        self.rounds.append(facts)
        self._policy.round(facts)

    def drafted(self, facts: DraftFacts) -> None:
        """Handed on."""
        self._policy.drafted(facts)

    def foresaw(self, facts: ForesightFacts) -> None:
        """Handed on."""
        self._policy.foresaw(facts)


class RecordedPool(PoolPolicy):
    """Keeps the rounds of every generation until they are asked for."""

    def __init__(self, make: PolicyMaker | None = None) -> None:
        """`make` takes the place of the choice that a coordinator makes by measurement."""
        super().__init__()
        self._make = make or super().generation
        self._numbers = count()
        self._policies: dict[int, RecordedPolicy] = {}

    def generation(self, terms: SpeculationTerms) -> GenerationPolicy:
        """A policy that is kept."""
        number = next(self._numbers)
        self._policies[number] = RecordedPolicy(self._make(terms), number)
        return self._policies[number]

    def take(self, speculation: generation_pb2.SpeculationStats) -> list[RoundFacts]:
        """The rounds of the generation that ended with these statistics; only once.

        Raises LookupError where no policy of this pool had a part in it.
        """
        number = int(speculation.changes[-1].reason.removeprefix(MARK))
        return self._policies.pop(number).rounds
