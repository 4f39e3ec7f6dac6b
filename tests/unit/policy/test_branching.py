"""Side branches: how often they are hit, and how many pay."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.policy.branching import CHOICES, SHARES, HitRate, best_count, hit_chances


@pytest.mark.parametrize("acceptance", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("length", [1, 4, 8])
def test_each_branch_adds_less_and_all_together_no_more_than_the_shares(
    acceptance: float, length: int
) -> None:
    survival = [acceptance ** (place + 1) for place in range(8)]
    chances = hit_chances(survival, length)
    added = [more - less for less, more in pairwise(chances)]
    assert chances[0] == 0.0
    assert added == sorted(added, reverse=True)
    assert chances[-1] <= sum(SHARES) + 1e-9


def test_with_one_token_the_branches_are_its_alternatives() -> None:
    chances = hit_chances([0.7], 1)
    assert chances[1:5] == pytest.approx([0.16, 0.28, 0.345, 0.41])


def test_more_are_worth_it_the_longer_the_wait_they_spare() -> None:
    chances = hit_chances([0.8 ** (place + 1) for place in range(8)], 8)
    counts = [
        best_count(chances, miss=0.8, lead=lead, row_cost=0.02) for lead in (0.0, 0.5, 2.0, 8.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == CHOICES[-1]


def test_the_shares_give_way_to_experience() -> None:
    hits = HitRate()
    assert hits.factor == 1.0
    for _ in range(400):
        hits.missed(expected=0.2, hits=0)
    assert hits.factor < 0.15
