"""What matches say of acceptance where the target's choice is a draw of its own."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.policy.foresight import DRAWN, DRAWN_RISE, Foresight


def drawn() -> Foresight:
    return Foresight(stated=DRAWN, rise=DRAWN_RISE)


def compared_until_a_sign(
    foresight: Foresight, chance: Random, *, match: float, believed: float
) -> int:
    return next(
        number
        for number in range(1, 10_000)
        if foresight.sign(matched=chance.random() < match, acceptance=believed)
    )


def test_the_ratio_is_stated_at_first_and_learnt_then() -> None:
    foresight, chance = drawn(), Random(1)
    assert foresight.match(0.5) == pytest.approx(0.5 * DRAWN)
    for _ in range(400):
        foresight.learn(matched=chance.random() < 0.9 * 0.4, acceptance=0.9)
    assert foresight.match(0.5) == pytest.approx(0.5 * 0.4, abs=0.05)


def test_more_matches_than_a_low_acceptance_allows_are_soon_a_sign() -> None:
    waits = [
        compared_until_a_sign(drawn(), Random(seed), match=0.55, believed=0.05)
        for seed in range(40)
    ]
    assert sorted(waits)[20] <= 4
    assert max(waits) <= 12


def test_matches_that_are_as_many_as_expected_rarely_are() -> None:
    waits = [
        compared_until_a_sign(drawn(), Random(seed), match=0.3 * DRAWN, believed=0.3)
        for seed in range(40)
    ]
    assert sum(waits) / len(waits) > 100


def test_signs_in_vain_make_the_next_one_rarer_until_one_comes_true() -> None:
    foresight, chance = drawn(), Random(3)

    def mean_wait() -> float:
        waits = [
            compared_until_a_sign(foresight, chance, match=0.3, believed=0.15) for _ in range(20)
        ]
        return sum(waits) / len(waits)

    once = compared_until_a_sign(drawn(), Random(3), match=0.3, believed=0.15)
    assert mean_wait() > 5 * once
    foresight.came_true()
    assert compared_until_a_sign(foresight, Random(3), match=0.3, believed=0.15) <= 2 * once
