"""Chances of acceptance from few rounds and from many."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.policy.belief import Belief
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.outcomes import in_a_row
from coordinator.policy.survival import STATED, Acceptance, Assumed


def measured(hazards: list[float], *, rounds: int, memory: float = 1000.0) -> Acceptance:
    chance = Random(1)
    acceptance = Acceptance(Assumed(), weight=4.0, memory=memory)
    for _ in range(rounds):
        accepted = 0
        while accepted < len(hazards) and chance.random() < hazards[accepted]:
            accepted += 1
        acceptance.judged(in_a_row(drafted=len(hazards), accepted=accepted))
    return acceptance


def test_before_any_round_the_stated_chance_holds() -> None:
    acceptance = Acceptance(Assumed(), weight=4.0, memory=40.0)
    assert acceptance.survival(3) == pytest.approx([STATED, STATED**2, STATED**3])


@pytest.mark.parametrize("hazards", [[0.5] * 4, [0.3, 0.6, 0.9, 0.9], [0.9, 0.5, 0.3, 0.1]])
def test_each_place_has_its_own_chance(hazards: list[float]) -> None:
    acceptance = measured(hazards, rounds=4000)
    for place, hazard in enumerate(hazards):
        assert acceptance.hazard(place) == pytest.approx(hazard, abs=0.08)
    survival = acceptance.survival(4)
    assert survival == sorted(survival, reverse=True)


def test_places_never_seen_are_like_the_others() -> None:
    acceptance = measured([0.8, 0.8], rounds=1000)
    assert acceptance.hazard(9) == pytest.approx(0.8, abs=0.03)


def test_a_new_generation_goes_by_what_all_saw_until_it_has_seen_enough_itself() -> None:
    pool = measured([0.9] * 4, rounds=500)
    own = Acceptance(pool, weight=24.0, memory=40.0)
    assert own.overall == pytest.approx(pool.overall)
    for _ in range(40):
        own.judged(in_a_row(drafted=4, accepted=0))
    assert own.overall < 0.5
    assert pool.overall == pytest.approx(0.9, abs=0.03)


def rounds_until_noticed(before: float, after: float, *, seed: int) -> int:
    chance = Random(seed)
    belief = Belief(
        Acceptance(Assumed(), weight=24.0, memory=40.0),
        ChangeWatch(drop=3.9, rise=6.0, tokens=3, rounds=6),
    )

    def judge(hazard: float) -> bool:
        accepted = 0
        while accepted < 4 and chance.random() < hazard:
            accepted += 1
        return belief.judged(in_a_row(drafted=4, accepted=accepted))

    for _ in range(60):
        judge(before)
    return next(number for number in range(1, 400) if judge(after) or number == 399)


def test_a_drop_is_noticed_within_three_rounds() -> None:
    belief = Belief(
        Acceptance(Assumed(), weight=24.0, memory=40.0),
        ChangeWatch(drop=3.9, rise=6.0, tokens=3, rounds=6),
    )
    for accepted in (4, 3, 4, 4, 2, 4, 4, 1, 4, 4, 4, 3, 4, 2, 4, 4, 4, 4, 0, 4):
        assert not belief.judged(in_a_row(drafted=4, accepted=accepted))
    assert belief.acceptance.overall > 0.8
    noticed = [belief.judged(in_a_row(drafted=4, accepted=0)) for _ in range(3)]
    assert noticed[-1]
    assert belief.acceptance.overall < 0.2


@pytest.mark.parametrize("hazard", [0.2, 0.5, 0.8, 0.95])
def test_what_does_not_change_is_rarely_taken_for_a_change(hazard: float) -> None:
    waits = [rounds_until_noticed(hazard, hazard, seed=seed) for seed in range(40)]
    assert sum(waits) / len(waits) > 60


def test_a_rise_is_noticed_too() -> None:
    waits = [rounds_until_noticed(0.1, 0.95, seed=seed) for seed in range(20)]
    assert sorted(waits)[10] <= 3
