"""While the target decodes alone: when a draft is asked for copies, and when it is waited for."""

from __future__ import annotations

import pytest

from coordinator.draft_plan import Copying, DraftFacts, DraftPlan, RoundFacts, SpeculationTerms
from coordinator.policy.copies import Copies
from coordinator.policy.looking_up import MOST_ASKED, SHORT_RUN, LookingUp
from coordinator.policy.measures import PoolMeasures

STEP_S, HOP_S = 0.040, 0.001


def looking_up(*, copies: Copies, round_trip_s: float = 0.001, batch_size: int = 1) -> LookingUp:
    """A pool whose target takes 40 ms a token."""
    measures = PoolMeasures(lambda: 100.0)
    for in_run in (True, False) * 20:
        facts = RoundFacts(
            drafted=0,
            accepted=0,
            output=1,
            verify_s=STEP_S + (0.0 if in_run else HOP_S),
            model_s=STEP_S,
            queue_s=0.0,
            batch_size=batch_size,
            in_run=in_run,
        )
        measures.times.round(facts, draft_works=False)
    for _ in range(10):
        facts_of_draft = DraftFacts(
            tokens=0, steps=0, model_s=0.0, queue_s=0.0, round_trip_s=round_trip_s, copied=0
        )
        measures.times.drafted(facts_of_draft, ahead=True)
    return LookingUp(SpeculationTerms(max_draft_length=16), measures, copies)


def after(*offers: int) -> Copies:
    copies = Copies()
    for offer in offers:
        copies.offered(offer)
    return copies


def stated(copies: int) -> LookingUp:
    terms = SpeculationTerms(max_draft_length=16, copies=copies)
    return LookingUp(terms, PoolMeasures(lambda: 100.0), Copies())


def plan(policy: LookingUp, *, ready: int = 0, run: int = 0) -> DraftPlan:
    return policy.plan(copying=Copying(False, ready=ready, run=run))


def test_copies_that_come_often_and_soon_are_waited_for() -> None:
    policy = looking_up(copies=after(*[4] * 30))
    chosen = plan(policy)
    assert policy.waits
    assert (chosen.draft_length, chosen.together, chosen.run) == (0, 1, 0)
    assert chosen.copies >= 16


@pytest.mark.parametrize(
    ("offers", "round_trip_s"), [([4] * 30, 0.2), ([0] * 60, 0.001)], ids=["far", "rare"]
)
def test_others_are_asked_for_beside_a_run(offers: list[int], round_trip_s: float) -> None:
    policy = looking_up(copies=after(*offers), round_trip_s=round_trip_s)
    chosen = plan(policy)
    assert not policy.waits
    assert chosen.run >= SHORT_RUN
    assert chosen.copies > 0
    assert chosen.together == 0


def test_what_lies_ready_ends_the_run() -> None:
    policy = looking_up(copies=after(*[0] * 60))
    chosen = plan(policy, ready=3)
    assert (chosen.run, policy.waits) == (0, False)
    assert chosen.copies > 0


def test_a_copy_that_is_hardly_ever_right_is_no_reason_to_stop() -> None:
    copies = after(*[0] * 60)
    for _ in range(200):
        copies.compared(matched=False, run=0)
    assert plan(looking_up(copies=copies), ready=1).run >= SHORT_RUN


def test_a_crowd_asks_in_vain_more_rarely() -> None:
    runs = [plan(looking_up(copies=after(*[0] * 200), batch_size=size)).run for size in (1, 8, 32)]
    assert runs == sorted(runs)
    assert SHORT_RUN <= runs[0] < runs[-1]


def test_a_distant_draft_copies_further_ahead() -> None:
    near, far = (plan(looking_up(copies=after(), round_trip_s=trip_s)) for trip_s in (0.001, 0.15))
    assert near.copies < far.copies <= MOST_ASKED


@pytest.mark.parametrize("copies", [1, 5, 16])
def test_a_stated_number_is_kept_to(copies: int) -> None:
    policy = stated(copies)
    assert policy.most(run=0) == policy.most(run=30) == copies


def test_none_are_asked_for_where_there_are_to_be_none() -> None:
    chosen = plan(stated(0), ready=4)
    assert (chosen.copies, chosen.together) == (0, 0)
    assert chosen.run > SHORT_RUN


def test_the_draft_looks_while_the_prompt_is_read() -> None:
    first = looking_up(copies=after()).begin(copying=Copying(False))
    assert first.copies > 0
    assert (first.draft_length, first.ahead) == (0, 0)
