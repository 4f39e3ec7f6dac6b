"""Estimates: the median, and an interval that is honest about few samples."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.statistics import Estimate, estimate, quantile, spread


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=30))
def test_the_interval_holds_the_median_and_stays_within_the_samples(samples: list[float]) -> None:
    found = estimate(samples)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert min(samples) <= found.low <= found.median == median(samples) <= found.high
    assert found.high <= max(samples)
    assert estimate(samples) == found


@pytest.mark.parametrize("count", range(1, 6))
def test_few_samples_have_no_interval(count: int) -> None:
    found = estimate([2.0] * count)
    assert found == Estimate(2.0, None, None, count)
    assert not found.certain


def test_no_samples_have_no_estimate() -> None:
    assert estimate([]) is None
    assert spread([]) is None


@pytest.mark.parametrize("count", [8, 20])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(count: int) -> None:
    """0.92 is expected of a bootstrapped median of so few; below 0.80 in 120 tries has a chance
    of 1e-5."""
    rolls = random.Random(count)
    hits = 0
    for _ in range(120):
        found = estimate([rolls.gauss(3.0, 1.0) for _ in range(count)])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 3.0 <= found.high
    assert hits >= 0.8 * 120


def test_a_difference_is_certain_only_off_one() -> None:
    assert Estimate(1.2, 1.1, 1.3, 9).above_one
    assert Estimate(0.8, 0.7, 0.9, 9).below_one
    assert not Estimate(1.2, 0.9, 1.3, 9).certain


def test_quantiles_lie_between_neighbours() -> None:
    samples = [4.0, 1.0, 3.0, 2.0]
    assert quantile(samples, 0.0) == 1.0
    assert quantile(samples, 0.5) == 2.5
    assert quantile(samples, 1.0) == 4.0
    found = spread([1.0] * 98 + [11.0, 21.0])
    assert found is not None
    assert (found.mean, found.p50) == (1.3, 1.0)
    assert found.p99 == pytest.approx(11.1)
