"""What the policy makes of stated traces: drops, returns, long tails, loads and distances."""

from __future__ import annotations

import math
from random import Random

import pytest

from coordinator.draft_plan import RoundFacts, Situation
from tests.unit.policy.traces import (
    HOP_S,
    ROW_S,
    STEP_S,
    Trace,
    all_accepted,
    none_accepted,
    switches,
)


def mostly_right(chance: Random, acceptance: float = 0.85):  # type: ignore[no-untyped-def]
    def accepted(drafted: int) -> int:
        right = 0
        while right < drafted and chance.random() < acceptance:
            right += 1
        return right

    return accepted


@pytest.mark.parametrize("bonus_free", [True, False])
def test_a_drop_of_acceptance_turns_it_off_within_three_rounds(bonus_free: bool) -> None:
    trace = Trace(bonus_free=bonus_free)
    trace.turns(40, mostly_right(Random(2), 0.95))
    assert trace.turn(all_accepted).draft_length > 0
    for plan in trace.turns(3, none_accepted):
        assert plan.draft_length > 0
        assert trace.policy.changes[-1].draft_length > 0
    trace.turn(none_accepted)
    assert trace.policy.changes[-1].draft_length == 0
    word, _, figures = trace.policy.changes[-1].reason.partition(": ")
    assert word == "ACCEPTANCE"
    assert "tokens/s" in figures


@pytest.mark.parametrize("bonus_free", [True, False])
def test_its_return_turns_it_on_again(bonus_free: bool) -> None:
    trace = Trace(bonus_free=bonus_free)
    trace.turns(40, mostly_right(Random(2), 0.95))
    trace.turns(400, none_accepted)
    assert trace.turn(none_accepted).draft_length == 0
    began = trace.now
    while not (trace.turn(all_accepted).draft_length > 4 and trace.policy.changes[-1].draft_length):
        assert trace.now < began + 20.0
    assert trace.policy.changes[-1].reason.startswith("PROBE")
    trace.begin()
    assert trace.turn(all_accepted).draft_length > 0


def test_while_it_is_off_the_draft_is_left_alone_but_for_rare_probes() -> None:
    trace = Trace()
    trace.turns(2000, none_accepted)
    plans = trace.turns(2000, none_accepted)
    probes = [plan for plan in plans if plan.ahead or plan.draft_length]
    assert all(plan.draft_length == 0 for plan in plans)
    seconds = 2000 * STEP_S
    assert seconds / 10 < len(probes) < seconds / 4
    assert sum(plan.ahead for plan in probes) < 0.1 * len(plans)


def test_long_tails_do_not_make_it_flap() -> None:
    """Bursts of full acceptance between droughts, as code between prose has them."""
    chance = Random(3)
    trace = Trace()
    plans = []
    while trace.now < 200.0:
        burst = chance.random() < 0.5
        acceptance = 0.95 if burst else 0.35
        rounds = int(chance.paretovariate(1.2)) + 1
        plans += trace.turns(min(rounds, 40), mostly_right(chance, acceptance))
    assert switches(plans) <= 20


@pytest.mark.parametrize("acceptance", [0.02, 0.05, 0.08, 0.12])
def test_at_the_boundary_it_does_not_flap(acceptance: float) -> None:
    trace = Trace()
    chance = Random(4)
    plans = trace.turns(5000, mostly_right(chance, acceptance))
    assert switches(plans) <= trace.now / 10


def test_a_new_generation_begins_with_what_others_learnt() -> None:
    trace = Trace()
    first = trace.turn(all_accepted)
    trace.turns(60, mostly_right(Random(5), 0.95))
    trace.begin()
    later = trace.turn(all_accepted)
    assert (first.draft_length, later.draft_length > 4) == (4, True)
    trace.turns(300, none_accepted)
    trace.begin()
    assert trace.turn(none_accepted).draft_length == 0


def test_a_distant_draft_of_middling_quality_is_not_used() -> None:
    near, far = Trace(), Trace(round_trip_s=0.3)
    for trace in (near, far):
        trace.turns(80, mostly_right(Random(6), 0.5))
    assert near.turn(none_accepted).draft_length > 0
    assert far.turn(none_accepted).draft_length == 0
    reasons = [change.reason for change in far.policy.changes if not change.draft_length]
    assert reasons[-1].startswith("ROUND_TRIP")


def test_a_row_that_costs_others_more_than_it_earns_is_not_asked_for() -> None:
    trace = Trace()
    accepted = mostly_right(Random(7), 0.6)
    for _ in range(80):
        plan = trace.policy.plan(
            Situation(offset=trace.offset, room=1000, draft_ready=True, ready=16)
        )
        drafted = plan.draft_length
        right = accepted(drafted)
        model_s = STEP_S + ROW_S * 64 * (drafted + 1)
        trace.now += model_s + HOP_S
        trace.turn(accepted)
        trace.policy.round(
            RoundFacts(
                drafted=drafted,
                accepted=right,
                output=right + 1,
                verify_s=model_s + HOP_S,
                model_s=model_s,
                queue_s=0.0,
                batch_size=64,
                price=0.9,
            )
        )
    assert trace.turn(accepted).draft_length == 0


@pytest.mark.parametrize("mode", ["on", "auto"])
def test_nothing_depends_on_more_than_counts_and_clocks(mode: str) -> None:
    """The same facts give the same plans and the same patience, however often they are asked."""
    traces = [Trace(may_stop=mode == "auto") for _ in range(2)]
    for trace in traces:
        trace.turns(30, mostly_right(Random(8), 0.7))
    asked = [(0, 0.001), (0, 0.05), (1, 0.004), (3, 0.004), (3, 0.2), (9, 0.001)]
    answers = []
    for trace in traces:
        trace.policy.plan(Situation(offset=trace.offset, room=1000, draft_ready=True, ready=0))
        answers.append(
            [trace.policy.patience_s(tokens=tokens, next_in_s=wait) for tokens, wait in asked]
        )
    assert answers[0] == answers[1]
    assert trace.policy.patience_s(tokens=0, next_in_s=math.inf) == 0.0


def test_it_stays_on_where_it_must() -> None:
    trace = Trace(may_stop=False)
    plans = trace.turns(200, none_accepted)
    assert all(plan.draft_length >= 1 for plan in plans)
    assert plans[-1].draft_length <= 2


def test_a_fixed_length_is_used_or_not_but_never_another() -> None:
    trace = Trace(draft_length=5)
    lengths = {plan.draft_length for plan in trace.turns(60, all_accepted)}
    lengths |= {plan.draft_length for plan in trace.turns(60, none_accepted)}
    assert lengths == {0, 5}


def test_changes_are_the_last_32() -> None:
    trace = Trace()
    for _ in range(60):
        trace.policy.plan(Situation(offset=trace.offset, room=9, draft_ready=False))
        trace.offset += 1
        trace.turn(all_accepted)
    changes = trace.policy.changes
    assert len(changes) == 32
    assert changes[-1].offset > changes[0].offset
    assert {change.reason.partition(":")[0] for change in changes} <= {
        "START",
        "ACCEPTANCE",
        "DRAFT_MISSING",
        "DRAFT_FOUND",
    }


def test_the_state_of_the_pool_is_told() -> None:
    trace = Trace(round_trip_s=0.02)
    assert trace.pool.status() is None
    trace.turns(100, mostly_right(Random(9), 0.8))
    status = trace.pool.status()
    assert status is not None
    assert status.draft_length > 0
    assert status.survival[0] == pytest.approx(0.8, abs=0.1)
    assert status.draft_token_ms == pytest.approx(4.0, rel=0.05)
    assert status.draft_round_trip_ms == pytest.approx(20.0, rel=0.05)
    assert status.plain_step_ms == pytest.approx(40.4, rel=0.05)
    assert status.verify_ms == pytest.approx(41.9, rel=0.05)
    assert status.verify_row_ms == pytest.approx(0.4, rel=0.3)


@pytest.mark.parametrize("patience_s", [0.02, 0.25])
def test_a_wait_that_cannot_end_in_time_is_not_begun(patience_s: float) -> None:
    trace = Trace(may_stop=False, patience_s=patience_s)
    trace.turns(30, all_accepted)
    trace.policy.plan(Situation(offset=trace.offset, room=1000, draft_ready=True, ready=0))
    assert 0.0 < trace.policy.patience_s(tokens=0, next_in_s=0.004) <= patience_s
    assert trace.policy.patience_s(tokens=0, next_in_s=1.01 * patience_s) == 0.0
