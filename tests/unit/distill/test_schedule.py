"""How large steps are."""

from __future__ import annotations

from itertools import pairwise

import pytest

from outrider.distill.schedule import Schedule

SCHEDULE = Schedule(rate=0.5, tokens=1000)


def test_up_level_and_down() -> None:
    rates = [SCHEDULE.rate_at(tokens) for tokens in range(0, 1001, 10)]
    assert 0.0 < rates[0] < rates[1] < rates[2] == 0.5
    assert rates[2:76] == [0.5] * 74
    assert all(later < earlier for earlier, later in pairwise(rates[75:]))
    assert rates[-1] == 0.0


def test_beyond_the_end_nothing_moves() -> None:
    assert SCHEDULE.rate_at(2000) == 0.0


@pytest.mark.parametrize("tokens", [1, 3, 100, 749, 750])
def test_an_early_way_down_begins_where_it_is_asked_to(tokens: int) -> None:
    early = SCHEDULE.cooling_from(tokens)
    assert early.rate == SCHEDULE.rate
    assert abs(early.cools_from - tokens) <= 1
