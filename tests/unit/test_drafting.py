"""When a generation chooses how the next round is made, and when its draft hears of it."""

from __future__ import annotations

from typing import cast

from coordinator.draft_intake import DraftIntake
from coordinator.draft_plan import DraftPlan, Situation, SpeculationTerms
from coordinator.draft_session import DraftSession
from coordinator.draft_tree import DraftTree
from coordinator.drafting import Drafting
from coordinator.policy import GenerationPolicy


class Session:
    """A draft that is there, and keeps what it is told."""

    ready = True
    model = None

    def __init__(self) -> None:
        self.told: list[DraftPlan] = []

    def commit(self, plan: DraftPlan) -> None:
        self.told.append(plan)


class Planned:
    """A policy whose plans are stated."""

    def __init__(self, *plans: DraftPlan) -> None:
        self.plans = list(plans)

    def plan(self, situation: Situation) -> DraftPlan:
        return self.plans.pop(0)


def drafting(*plans: DraftPlan) -> tuple[Drafting, Planned, Session]:
    policy, session = Planned(*plans), Session()
    made = Drafting(
        terms=SpeculationTerms(max_draft_length=16),
        policy=cast(GenerationPolicy, policy),
        session=cast(DraftSession, session),
        intake=cast(DraftIntake, None),
        tree=cast(DraftTree, type("Tree", (), {"depth": 0})()),
        room=lambda: 100,
    )
    return made, policy, session


def test_what_is_chosen_in_a_run_stands_until_its_round() -> None:
    """A policy is asked once for each round with draft tokens."""
    made, policy, session = drafting(DraftPlan(4, ahead=8), DraftPlan(0, run=8))
    for left in (2, 1, 0):
        made.go_on(offset=9 - left, in_run=left > 0)
        assert made.plan.draft_length == 4
    assert len(policy.plans) == 1
    assert len(session.told) == 3


async def test_after_its_round_another_is_chosen() -> None:
    made, policy, _ = drafting(DraftPlan(0, run=8), DraftPlan(0, run=4))
    made.go_on(offset=3, in_run=True)
    await made.proposal()
    made.go_on(offset=4, in_run=False)
    assert made.plan.run == 4
    assert not policy.plans


def test_a_draft_that_takes_turns_rests_until_the_run_is_over() -> None:
    made, _, session = drafting(DraftPlan(4))
    made.go_on(offset=3, in_run=True)
    assert not session.told
    made.go_on(offset=4, in_run=False)
    assert [plan.draft_length for plan in session.told] == [4]
