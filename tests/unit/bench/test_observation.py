"""Bursts are visible: what came together has no gap, what was waited for has all of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.observation import Observation


def seen(arrivals: list[tuple[float, int]], *, asked: float = 0.0) -> Observation:
    tokens = sum(count for _, count in arrivals)
    return Observation(0, asked, arrivals, list(range(tokens)), arrivals[-1][0] + 0.5)


def test_a_burst_is_one_gap_and_zeros() -> None:
    one = seen([(1.0, 2), (3.0, 3), (4.0, 1)], asked=0.5)
    assert one.token_gaps_s == [0.0, 2.0, 0.0, 0.0, 1.0]
    assert one.chunk_gaps_s == [2.0, 1.0]
    assert one.first_token_s == 0.5
    assert one.latency_s == 4.0
    assert one.per_token_s == pytest.approx(4.0 / 6)


@given(st.lists(st.tuples(st.floats(0.001, 10.0), st.integers(1, 8)), min_size=1, max_size=20))
def test_gaps_are_all_tokens_but_one_and_all_the_time(steps: list[tuple[float, int]]) -> None:
    when, arrivals = 0.0, []
    for gap, count in steps:
        when += gap
        arrivals.append((when, count))
    one = seen(arrivals)
    assert len(one.token_gaps_s) == one.tokens - 1
    assert sum(one.token_gaps_s) == pytest.approx(arrivals[-1][0] - arrivals[0][0])
    assert one.chunk_gaps_s == [later[0] - earlier[0] for earlier, later in pairwise(arrivals)]


def test_an_output_without_tokens_has_no_first_one() -> None:
    one = Observation(0, 1.0, ended=2.0)
    assert one.first_token_s is None
    assert one.per_token_s is None
    assert one.token_gaps_s == []
