"""Times of steps with a working and a resting draft; what rows add."""

from __future__ import annotations

import pytest

from coordinator.draft_plan import DraftFacts, RoundFacts
from coordinator.policy.quiet import EVERY_S, TOKENS, WORKED, Quiet
from coordinator.policy.recent import Lowest, Recent
from coordinator.policy.slope import Slope
from coordinator.policy.step_times import StepTimes
from coordinator.policy.times import PoolTimes


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_how_much_a_working_draft_slows_the_target_is_learnt_where_both_were_seen() -> None:
    clock = Clock()
    steps = StepTimes(clock)
    for draft_works in (True, True, True, False, False):
        clock.now += 0.1
        steps.add(0.09 if draft_works else 0.06, batch_size=1, draft_works=draft_works)
    assert steps.slowdown == pytest.approx(1.5)
    for _ in range(40):
        clock.now += 0.2
        steps.add(0.18, batch_size=8, draft_works=True)
    assert steps.seconds(draft_works=True) == pytest.approx(0.18, rel=0.05)
    assert steps.seconds(draft_works=False) == pytest.approx(0.12, rel=0.05)


def test_batches_of_another_size_are_not_compared() -> None:
    clock = Clock()
    steps = StepTimes(clock)
    steps.add(0.09, batch_size=32, draft_works=True)
    steps.add(0.04, batch_size=1, draft_works=False)
    assert steps.slowdown == 1.0


def test_drafts_rest_for_some_tokens_and_then_not_for_long() -> None:
    clock = Clock()
    quiet = Quiet(clock)
    assert not quiet.now()
    for _ in range(WORKED):
        quiet.worked()
    assert quiet.now()
    for _ in range(TOKENS):
        assert quiet.now()
        quiet.seen(slowdown=2.0)
    assert not quiet.now()
    for _ in range(WORKED):
        quiet.worked()
    clock.now += EVERY_S - 1.0
    assert not quiet.now()
    clock.now += 2.0
    assert quiet.now()
    clock.now += 2.0
    assert not quiet.now()


def test_a_row_costs_what_the_price_says() -> None:
    """Four generations, steps of 40 ms and 1 ms a row, each round 2 draft tokens and 2 output."""
    clock = Clock()
    times = PoolTimes(clock)
    model_s = 0.040 + 0.001 * 12
    for _ in range(60):
        clock.now += 0.06
        times.round(
            RoundFacts(
                drafted=2,
                accepted=1,
                output=2,
                verify_s=model_s + 0.002,
                model_s=model_s,
                queue_s=0.0,
                batch_size=4,
                price=8 * 0.001 / model_s,
            ),
            draft_works=True,
        )
    times.drafted(
        DraftFacts(tokens=4, steps=4, model_s=0.02, queue_s=0.0, round_trip_s=0.01), ahead=True
    )
    costs = times.costs(ahead=True)
    assert costs.row_s == pytest.approx(0.001, rel=0.15)
    assert costs.round_s(2) == pytest.approx(model_s + 0.002, rel=0.03)
    assert costs.others_price == pytest.approx(0.75 * 8 * 0.001 / model_s, rel=0.01)
    assert costs.others == pytest.approx(3.0)


def test_the_cost_of_a_row_of_the_draft_is_learnt() -> None:
    slope = Slope(0.04)
    assert slope.relative == 0.04
    for rows in (1, 9, 1, 5) * 100:
        slope.add(amount=rows, value=0.010 + 0.001 * rows)
    mean = 0.010 + 0.001 * 4
    assert slope.relative * mean == pytest.approx(0.001, rel=0.15)


def test_a_stall_hardly_moves_a_mean() -> None:
    recent = Recent(0.1)
    assert recent.value(7.0) == 7.0
    for _ in range(30):
        recent.add(1.0)
    recent.add(1000.0)
    assert recent.value(0.0) < 1.5


def test_the_lowest_is_not_raised_by_what_is_longer_for_a_while() -> None:
    lowest = Lowest()
    for _ in range(50):
        lowest.add(1.02)
    for _ in range(20):
        lowest.add(1.3)
    assert lowest.value(0.0) < 1.04


def test_stalls_of_the_draft_do_not_change_what_is_usual() -> None:
    """One proposal in five comes late, as when the machine is busy with something else."""
    times = PoolTimes(Clock())
    for number in range(60):
        slow = 8.0 if number % 5 == 4 else 1.0
        times.drafted(
            DraftFacts(
                tokens=4, steps=4, model_s=0.016 * slow, queue_s=0.0, round_trip_s=0.005 * slow
            ),
            ahead=True,
        )
        assert times.round_trip_s == pytest.approx(0.005)
        assert times.token_s(ahead=True) == pytest.approx(0.004)
