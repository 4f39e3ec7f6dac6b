"""The running fit of step times: what it learns, and what does not harm it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.step_time import RowPrice, StepLoad, StepTimeFit, attended_by

BASE_S, TOKEN_S, ATTENDED_S = 0.045, 0.0017, 2e-6


def true_seconds(load: StepLoad) -> float:
    return BASE_S + TOKEN_S * load.tokens + ATTENDED_S * load.attended


def loads(count: int, *, seed: int = 1) -> Iterable[StepLoad]:
    """Steps of 1 to 80 tokens behind 0 to 2 000 others."""
    chance = random.Random(seed)
    for _ in range(count):
        tokens = chance.choice([1, 5, 8, 20, 40, 80])
        yield StepLoad(tokens, attended_by(tokens, behind=chance.randrange(2000)))


def fitted(*, steps: int = 300, noise: float = 0.05, stalls: float = 0.0) -> StepTimeFit:
    chance, fit = random.Random(2), StepTimeFit()
    for load in loads(steps):
        seconds = true_seconds(load) * chance.uniform(1 - noise, 1 + noise)
        fit.observe(load, seconds * (10.0 if chance.random() < stalls else 1.0))
    return fit


def test_attended_positions() -> None:
    assert attended_by(1, behind=0) == 1
    assert attended_by(3, behind=10) == 11 + 12 + 13


def test_it_finds_what_a_step_and_a_row_take() -> None:
    fit = fitted()
    assert fit.known
    for load in loads(20, seed=3):
        assert fit.seconds(load) == pytest.approx(true_seconds(load), rel=0.1)
    row_s = TOKEN_S + ATTENDED_S * 500
    assert fit.row_seconds(context=500) == pytest.approx(row_s, rel=0.2)


def test_stalls_hardly_move_it() -> None:
    fit = fitted(stalls=0.03)
    for load in loads(20, seed=3):
        assert fit.seconds(load) == pytest.approx(true_seconds(load), rel=0.4)
    before = fitted()
    load = StepLoad(40, attended_by(40, behind=100))
    expected = before.seconds(load)
    before.observe(load, 10 * expected)
    assert before.seconds(load) == pytest.approx(expected, rel=0.05)


def test_a_first_step_that_stalled_is_forgotten() -> None:
    fit = StepTimeFit()
    fit.observe(StepLoad(1, 1.0), 10.0)
    for load in loads(300):
        fit.observe(load, true_seconds(load))
    for load in loads(20, seed=3):
        assert fit.seconds(load) == pytest.approx(true_seconds(load), rel=0.1)


def test_a_lasting_change_gets_through() -> None:
    fit = fitted()
    for load in loads(300, seed=5):
        fit.observe(load, 3 * true_seconds(load))
    for load in loads(20, seed=3):
        assert fit.seconds(load) == pytest.approx(3 * true_seconds(load), rel=0.1)


def test_steps_that_never_change_say_nothing_of_rows() -> None:
    fit = StepTimeFit()
    for _ in range(5000):
        fit.observe(StepLoad(5, 500.0), 0.05)
    assert not fit.known
    assert fit.seconds(StepLoad(5, 500.0)) == pytest.approx(0.05, rel=0.01)


def test_what_is_known_outlasts_steps_that_never_change() -> None:
    fit = fitted(noise=0.0)
    load = StepLoad(5, attended_by(5, behind=400))
    for _ in range(20_000):
        fit.observe(load, true_seconds(load))
    assert fit.known
    assert fit.row_seconds(context=400) == pytest.approx(TOKEN_S + ATTENDED_S * 400, rel=0.2)
    fit.observe(StepLoad(40, attended_by(40, behind=400)), 0.2)
    assert fit.seconds(load) == pytest.approx(true_seconds(load), rel=0.2)


def test_times_that_make_no_sense_are_left_out() -> None:
    fit = fitted()
    load = StepLoad(5, 500.0)
    expected = fit.seconds(load)
    for seconds in (0.0, -1.0, math.nan, math.inf):
        fit.observe(load, seconds)
    assert fit.seconds(load) == expected


steps = st.tuples(
    st.integers(1, 100_000),
    st.floats(0, 1e9),
    st.one_of(st.floats(1e-6, 1e4), st.just(math.nan), st.just(0.0)),
    st.integers(0, 10_000),
)


@given(st.lists(steps, min_size=1, max_size=60))
def test_no_history_makes_it_negative_or_unbounded(
    history: list[tuple[int, float, float, int]],
) -> None:
    fit = StepTimeFit()
    price = RowPrice(fit)
    for tokens, attended, seconds, outputs in history:
        load = StepLoad(tokens, attended)
        fit.observe(load, seconds)
        price.observe(load, outputs=outputs)
        for value in (fit.seconds(load), fit.row_seconds(context=100.0), price.value):
            assert math.isfinite(value)
            assert value >= 0.0


def priced(fit: StepTimeFit, load: StepLoad, *, outputs: int) -> float:
    price = RowPrice(fit)
    for _ in range(300):
        price.observe(load, outputs=outputs)
    return price.value


def test_the_price_is_the_tokens_that_a_rows_time_would_have_given() -> None:
    load = StepLoad(40, attended_by(5, behind=300) * 8)
    price = priced(fitted(noise=0.0), load, outputs=20)
    row_s = TOKEN_S + ATTENDED_S * load.attended / 40
    assert price == pytest.approx(20 * row_s / true_seconds(load), rel=0.1)


def test_a_row_costs_more_the_more_others_there_are() -> None:
    fit = fitted()
    alone = priced(fit, StepLoad(5, attended_by(5, behind=300)), outputs=2)
    crowded = priced(fit, StepLoad(80, attended_by(5, behind=300) * 16), outputs=32)
    assert crowded > 3 * alone


def test_there_is_no_price_before_it_is_known() -> None:
    fit = StepTimeFit()
    price = RowPrice(fit)
    assert price.value == 0.0
    for _ in range(100):
        fit.observe(StepLoad(5, 500.0), 0.05)
        price.observe(StepLoad(5, 500.0), outputs=3)
    assert price.value == 0.0
