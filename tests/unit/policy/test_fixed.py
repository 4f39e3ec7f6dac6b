"""Fixed draft lengths are utterly predictable."""

from __future__ import annotations

import math

import pytest

from coordinator.draft_plan import Copying, DraftFacts, RoundFacts, Situation, SpeculationTerms
from coordinator.policy import GenerationPolicy, PoolPolicy


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fixed(clock: Clock, **fields: object) -> GenerationPolicy:
    terms = {"max_draft_length": 16, "may_stop": False, "draft_length": 4, **fields}
    return PoolPolicy(clock=clock).generation(SpeculationTerms(**terms))  # type: ignore[arg-type]


def test_every_round_has_the_same_length_whatever_happens() -> None:
    policy = fixed(Clock())
    for offset in range(50):
        plan = policy.plan(Situation(offset=offset, room=100, draft_ready=True, ready=offset % 7))
        assert (plan.draft_length, plan.ahead, plan.branches) == (4, 8, 0)
        policy.round(
            RoundFacts(drafted=4, accepted=0, output=1, verify_s=0.9, model_s=0.1, queue_s=0.8)
        )
    assert [change.draft_length for change in policy.changes] == [4]


@pytest.mark.parametrize(("room", "length", "ahead"), [(0, 0, 0), (1, 1, 0), (4, 4, 0), (9, 4, 5)])
def test_no_more_than_can_become_output(room: int, length: int, ahead: int) -> None:
    plan = fixed(Clock()).plan(Situation(offset=0, room=room, draft_ready=True))
    assert (plan.draft_length, plan.ahead) == (length, ahead)


def test_without_going_on_rounds_are_synchronous() -> None:
    policy = fixed(Clock(), draft_ahead=False, branches=8)
    plan = policy.plan(Situation(offset=3, room=60, draft_ready=True))
    assert (plan.draft_length, plan.ahead, plan.branches) == (4, 0, 0)


def test_branches_that_were_asked_for_are_asked_for() -> None:
    plan = fixed(Clock(), branches=5).plan(Situation(offset=3, room=60, draft_ready=True))
    assert (plan.branches, plan.branch_length) == (5, 4)


def test_all_patience_is_used_once_for_each_round() -> None:
    clock = Clock()
    policy = fixed(clock, patience_s=0.25)
    policy.plan(Situation(offset=0, room=60, draft_ready=True))
    assert policy.patience_s(tokens=0, next_in_s=9.0) == 0.25
    clock.now += 0.2
    policy.drafted(DraftFacts(tokens=1, steps=1, model_s=0.1, queue_s=0.0, round_trip_s=0.1))
    assert policy.patience_s(tokens=3, next_in_s=9.0) == pytest.approx(0.05)
    clock.now += 0.2
    assert policy.patience_s(tokens=3, next_in_s=9.0) == 0.0
    policy.plan(Situation(offset=4, room=60, draft_ready=True))
    assert policy.patience_s(tokens=0, next_in_s=0.0) == 0.25
    assert policy.patience_s(tokens=0, next_in_s=math.inf) == 0.0


def test_a_missing_draft_is_said() -> None:
    policy = fixed(Clock())
    assert policy.plan(Situation(offset=0, room=60, draft_ready=True)).draft_length == 4
    plan = policy.plan(Situation(offset=9, room=60, draft_ready=False))
    assert plan.draft_length == plan.ahead == 0
    assert plan.run > 0
    policy.plan(Situation(offset=30, room=60, draft_ready=True))
    assert [(one.offset, one.draft_length, one.reason) for one in policy.changes] == [
        (0, 4, "REQUEST"),
        (9, 0, "DRAFT_MISSING"),
        (30, 4, "REQUEST"),
    ]


@pytest.mark.parametrize(("stated", "most"), [(0, 0), (3, 3), (16, 12)])
def test_copies_are_as_many_as_were_asked_for(stated: int, most: int) -> None:
    policy = fixed(Clock(), copies=stated)
    assert policy.plan(Situation(offset=0, room=60, draft_ready=True)).copies == 0
    plan = policy.plan(Situation(offset=0, room=60, draft_ready=True, copying=Copying(True)))
    assert (plan.draft_length, plan.ahead, plan.copies > 0) == (4, 8, most > 0)
    assert policy.copies(drawn=4, run=0) == policy.copies(drawn=0, run=30) == most


@pytest.mark.parametrize(("accepted", "most"), [(16, 12), (0, 2)])
def test_unstated_copies_are_those_that_are_likely(accepted: int, most: int) -> None:
    policy = fixed(Clock())
    for _ in range(40):
        policy.round(
            RoundFacts(
                drafted=16,
                accepted=accepted,
                output=accepted + 1,
                verify_s=0.1,
                model_s=0.1,
                queue_s=0.0,
                copied=(True,) * 16,
            )
        )
    assert policy.copies(drawn=4, run=0) == most
    assert policy.plan(Situation(offset=700, room=60, draft_ready=True)).draft_length == 4
