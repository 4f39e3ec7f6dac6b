"""The benchmarks of speculation run to their end, on an emulated pair in a hurry."""

from __future__ import annotations

import pytest

from benchmarks import common_price, draft_ahead, guard
from benchmarks.emulated_pair import ForwardTimes, PairTimes

HASTY = PairTimes(
    target=ForwardTimes(step_s=0.004, row_s=0.0), draft=ForwardTimes(step_s=0.0005, row_s=0.0)
)

pytestmark = pytest.mark.slow


def test_draft_ahead_is_compared_with_the_best_synchronous_length() -> None:
    rows = list(
        draft_ahead.measure(
            round_trips_s=(0.0, 0.02), draft_lengths=(2, 4), runs=1, output_tokens=40, times=HASTY
        )
    )

    assert [row.name for row in rows] == [
        "draft_ahead_0ms",
        "draft_ahead_20ms",
        "draft_ahead_slope",
    ]
    assert all(row.against.startswith("synchronous, best k = ") for row in rows[:2])
    assert "round trip measured 2" in rows[1].note


def test_the_guard_has_a_row_for_each_cell_and_two_of_all() -> None:
    cells = (guard.Cell(0.95, 0.0, 2), guard.Cell(0.05, 0.01, 1))

    rows = list(guard.measure(cells=cells, runs=2, output_tokens=32, times=HASTY))

    assert [row.name for row in rows] == [
        "guard_a95_0ms_2",
        "guard_a5_10ms_1",
        "guard_mean",
        "guard_switches",
    ]
    assert all("95 % upper bound" in row.note for row in rows[:2])
    assert "of 2 cells below 0.97" in rows[2].note


def test_many_generations_are_compared_with_the_best_common_length() -> None:
    (row,) = common_price.measure(
        count=3, draft_lengths=(1, 2), runs=1, output_tokens=24, times=HASTY
    )

    assert row.name == "price_3"
    assert row.against.startswith("the best common k, k = ")
