"""While speculation is off: when the draft is tried, and how."""

from __future__ import annotations

import pytest

from coordinator.draft_plan import DraftFacts, DraftPlan, RoundFacts, Situation, SpeculationTerms
from coordinator.policy.alone import JUDGED, Alone
from coordinator.policy.measures import PoolMeasures
from tests.unit.policy.traces import Trace, none_accepted

STEP_S = 0.04


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def alone(clock: Clock, *, bonus_free: bool) -> Alone:
    """A pool whose target takes 40 ms a token, with a draft that is near."""
    measures = PoolMeasures(clock)
    facts = RoundFacts(
        drafted=0, accepted=0, output=1, verify_s=STEP_S, model_s=STEP_S, queue_s=0.0, in_run=True
    )
    for _ in range(20):
        measures.times.round(facts, draft_works=False)
    measures.times.drafted(
        DraftFacts(tokens=4, steps=4, model_s=0.016, queue_s=0.0, round_trip_s=0.001), ahead=True
    )
    return Alone(SpeculationTerms(max_draft_length=16, bonus_free=bonus_free), measures)


def probes(plan: DraftPlan) -> bool:
    return plan.draft_length > 0 or plan.ahead > 0


def test_a_judged_probe_is_one_round_even_if_its_verdict_is_heard_of_late() -> None:
    """The next round is planned before the policy is told of the last one."""
    clock = Clock()
    policy = alone(clock, bonus_free=False)
    plan = policy.plan(room=100)
    assert (plan.draft_length, policy.waits) == (JUDGED, True)
    clock.now += STEP_S
    plan = policy.plan(room=100)
    assert (plan.draft_length, policy.waits) == (0, False)


@pytest.mark.parametrize("bonus_free", [True, False])
def test_the_first_plan_of_a_generation_is_no_probe(bonus_free: bool) -> None:
    """The target gives its first token without a round, so the probe would be lost."""
    trace = Trace(bonus_free=bonus_free)
    trace.turns(2000, none_accepted)
    trace.now += 60.0
    trace.begin()
    first, second = (
        trace.policy.plan(Situation(offset=offset, room=1000, draft_ready=True))
        for offset in (3, 4)
    )
    assert (probes(first), probes(second)) == (False, True)
