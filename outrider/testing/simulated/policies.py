"""What a simulated loop asks of a policy, and the simplest ones."""

from __future__ import annotations

from typing import Protocol

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)


class Policy(Protocol):
    """What a loop asks."""

    def plan(self, situation: Situation) -> DraftPlan:
        """How to make the next round."""
        ...

    def copies(self, *, drawn: int, run: int) -> int:
        """How many copied tokens are worth verifying."""
        ...

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """How long to wait for one more token."""
        ...

    def round(self, facts: RoundFacts) -> None:
        """A round was decided."""

    def drafted(self, facts: DraftFacts) -> None:
        """A proposal came."""

    def foresaw(self, facts: ForesightFacts) -> None:
        """The target chose a token without judging a draft's."""


class Alone:
    """The target decodes alone."""

    def plan(self, situation: Situation) -> DraftPlan:
        """A run."""
        return DraftPlan(0, run=128)

    def copies(self, *, drawn: int, run: int) -> int:
        """None."""
        return 0

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """None."""
        return 0.0

    def round(self, facts: RoundFacts) -> None:
        """Nothing to learn."""

    def drafted(self, facts: DraftFacts) -> None:
        """Nothing to learn."""

    def foresaw(self, facts: ForesightFacts) -> None:
        """Nothing to learn."""


def fixed_terms(draft_length: int, *, draft_ahead: bool = False) -> SpeculationTerms:
    """Terms that leave nothing to a policy."""
    return SpeculationTerms(
        max_draft_length=16,
        may_stop=False,
        draft_length=draft_length,
        draft_ahead=draft_ahead,
        branches=0,
        bonus_free=True,
    )
