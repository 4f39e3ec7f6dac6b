"""The arithmetic agrees with what was put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outrider.bench.break_even import BreakEven, break_even
from outrider.bench.cell import Cell
from outrider.bench.measurement import Measurements
from outrider.bench.setting import TARGET_ONLY, Setting
from outrider.v1 import generation_pb2

if TYPE_CHECKING:
    from conftest import Measured

FIXED = Setting("k = 4", generation_pb2.SPECULATION_MODE_ON, 4)


def cells(measurements: Measurements) -> dict[str, Cell]:
    return {one.setting: one for one in measurements.cells()}


def found(measured: Measured, *, round_s: float, per_round: int) -> BreakEven:
    by_name = cells(measured({FIXED: (round_s, per_round)}, loads=(2,), noise=0.0))
    even = break_even(by_name[FIXED.name], by_name[TARGET_ONLY.name])
    assert even is not None
    return even


def test_tokens_and_steps_of_a_round_give_the_speed(measured: Measured) -> None:
    even = found(measured, round_s=0.075, per_round=2)
    assert even.step_ms == pytest.approx(50.0)
    assert even.round_steps == pytest.approx(1.5)
    assert even.tokens_per_round == pytest.approx(2.0)
    assert even.speed == pytest.approx(2.0 / 1.5)


def test_the_overhead_by_cause_is_all_that_a_round_takes_beyond_a_step(measured: Measured) -> None:
    even = found(measured, round_s=0.075, per_round=2)
    assert even.overhead.total == pytest.approx(even.round_steps - 1.0)
    assert even.overhead.draft_wait == pytest.approx(0.5)
    assert even.overhead.verify == pytest.approx(0.0)


def test_the_needed_acceptance_brings_just_what_a_round_takes(measured: Measured) -> None:
    even = found(measured, round_s=0.075, per_round=2)
    needed = even.needed_acceptance
    assert needed is not None
    assert 1.0 + needed + needed**2 == pytest.approx(even.round_steps, abs=1e-6)


def test_a_round_that_takes_more_than_its_drafts_can_bring_never_pays(measured: Measured) -> None:
    assert found(measured, round_s=0.2, per_round=2).needed_acceptance is None


def test_a_round_that_costs_nothing_more_needs_no_acceptance(measured: Measured) -> None:
    assert found(measured, round_s=0.05, per_round=2).needed_acceptance == pytest.approx(0.0)


def test_nothing_but_first_rounds_says_nothing(measured: Measured) -> None:
    measurements = measured({FIXED: (0.05, 2)}, loads=(1,))
    for turns in measurements.turns.values():
        for turn in turns:
            for stint in turn.stints:
                for one in stint.observations:
                    one.token_ids = [1]
                    one.stats = generation_pb2.SpeculationStats(rounds=1)
    by_name = cells(measurements)
    assert break_even(by_name[FIXED.name], by_name[TARGET_ONLY.name]) is None
