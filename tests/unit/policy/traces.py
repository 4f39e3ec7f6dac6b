"""A policy driven by stated rounds, without services."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy import GenerationPolicy, PoolPolicy

STEP_S, ROW_S, HOP_S, TOKEN_S = 0.040, 0.0004, 0.0015, 0.004


class Trace:
    """One coordinator after the other: generations share a pool, and time is what rounds take."""

    def __init__(self, *, round_trip_s: float = 0.001, **terms: object) -> None:
        self.now = 0.0
        self.round_trip_s = round_trip_s
        self.pool = PoolPolicy(clock=lambda: self.now)
        fields = {"max_draft_length": 16, "bonus_free": True, **terms}
        self.terms = SpeculationTerms(**fields)  # type: ignore[arg-type]
        self.offset = 0
        self.policy: GenerationPolicy
        self.begin()

    def begin(self) -> None:
        """A new generation."""
        self.policy = self.pool.generation(self.terms)
        self.offset = 0

    def turn(self, accepted: Callable[[int], int], *, ready: int = 16) -> DraftPlan:
        """One round, or one token of a run; `accepted` says how many of so many draft tokens.

        While the target decodes alone, a probed token is as good as a round's first one.
        """
        plan = self.policy.plan(
            Situation(offset=self.offset, room=1000, draft_ready=True, ready=ready)
        )
        drafted = plan.draft_length
        if drafted or plan.ahead:
            self.policy.drafted(
                DraftFacts(
                    tokens=drafted + plan.ahead,
                    steps=drafted + plan.ahead,
                    model_s=TOKEN_S * (drafted + plan.ahead),
                    queue_s=0.0,
                    round_trip_s=self.round_trip_s,
                )
            )
        if not drafted:
            matches = accepted(plan.ahead) if plan.ahead else 0
            for place in range(min(plan.ahead, matches + 1)):
                self.policy.foresaw(ForesightFacts(matched=place < matches))
        right = accepted(drafted) if drafted else 0
        model_s = STEP_S + ROW_S * (drafted + 1)
        verify_s = model_s + (HOP_S if drafted else 0.0)
        self.now += verify_s
        self.offset += right + 1
        self.policy.round(
            RoundFacts(
                drafted=drafted,
                accepted=right,
                output=right + 1,
                verify_s=verify_s,
                model_s=model_s,
                queue_s=0.0,
                price=(right + 1) * ROW_S / model_s,
                in_run=not drafted,
                ready=drafted > 0,
            )
        )
        return plan

    def turns(self, count: int, accepted: Callable[[int], int]) -> list[DraftPlan]:
        """Several of them."""
        return [self.turn(accepted) for _ in range(count)]


def all_accepted(drafted: int) -> int:
    """A draft that is always right."""
    return drafted


def none_accepted(drafted: int) -> int:
    """A draft that never is."""
    return 0


def switches(plans: list[DraftPlan]) -> int:
    """How often speculation was turned off or on."""
    on = [plan.draft_length > 0 for plan in plans]
    return sum(one != other for one, other in pairwise(on))
