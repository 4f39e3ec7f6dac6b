"""How far a mean ratio may be off."""

from __future__ import annotations

import random

import pytest

from benchmarks.bootstrap import geometric_mean, upper_bound


def test_twice_and_half_as_fast_is_no_gain() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)


def test_equal_ratios_leave_no_doubt() -> None:
    assert upper_bound([0.9] * 4) == pytest.approx(0.9)


def test_the_bound_lies_between_the_mean_and_the_largest() -> None:
    each = [0.9, 1.0, 1.1, 1.3]
    assert geometric_mean(each) < upper_bound(each) <= 1.3


def test_the_true_mean_is_below_the_bound_as_often_as_stated() -> None:
    generator = random.Random(2)
    held = 0
    for _ in range(40):
        each = [generator.lognormvariate(0.0, 0.1) for _ in range(30)]
        held += upper_bound(each, draws=400) >= 1.0
    assert held >= 32
