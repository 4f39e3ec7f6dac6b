"""How much is measured, in which order."""

from __future__ import annotations

import pytest

from outrider.bench.cell import Place
from outrider.bench.plan import BenchPlan, Budget
from outrider.bench.setting import TARGET_ONLY, Setting
from outrider.bench.turn import order_of_turn, requests_of_turn
from outrider.v1 import generation_pb2

AUTO = Setting("auto", generation_pb2.SPECULATION_MODE_AUTO)
FIXED = Setting("k = 2", generation_pb2.SPECULATION_MODE_ON, 2)


@pytest.mark.parametrize(
    ("budget", "turns", "seconds", "spent"),
    [
        (Budget(seconds=10.0), 6, 9.0, 0.9),
        (Budget(seconds=10.0), 3, 60.0, 0.5),
        (Budget(seconds=10.0), 6, 10.0, 1.0),
        (Budget(requests=10), 2, 1e9, 0.8),
        (Budget(requests=10), 3, 0.0, 1.2),
        (Budget(seconds=10.0, requests=100), 2, 10.0, 1.0),
        (Budget(seconds=10.0, requests=8), 2, 1.0, 1.0),
    ],
)
def test_what_is_spent_first_ends_it(
    budget: Budget, turns: int, seconds: float, spent: float
) -> None:
    assert budget.spent(turns=turns, concurrency=4, seconds=seconds) == pytest.approx(spent)


def test_places_are_every_load_at_every_distance() -> None:
    plan = BenchPlan(
        speculating=[AUTO],
        concurrencies=[1, 8],
        round_trips_ms=[0.0, 25.0],
        max_new_tokens=8,
        budget=Budget(requests=1),
    )
    assert list(plan.places()) == [
        Place(concurrency=load, round_trip_ms=trip) for trip in (0.0, 25.0) for load in (1, 8)
    ]
    assert plan.settings == [TARGET_ONLY, AUTO]


def test_turns_bring_new_requests_and_turn_the_order_round() -> None:
    assert [list(requests_of_turn(number, concurrency=3)) for number in range(2)] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    settings = [TARGET_ONLY, AUTO, FIXED]
    assert order_of_turn(0, settings) == settings
    assert order_of_turn(1, settings) == [FIXED, AUTO, TARGET_ONLY]
