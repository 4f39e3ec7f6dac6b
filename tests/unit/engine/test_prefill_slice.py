"""How much of long prompts a step takes along."""

from __future__ import annotations

import pytest

from outrider.engine.prefill_slice import LONGEST, SHORTEST, UNKNOWN, FittedSlice, FixedSlice
from outrider.engine.step_time import StepLoad, StepTimeFit, attended_by


def fit_of(base_s: float, token_s: float, attended_s: float = 0.0) -> StepTimeFit:
    """A fit that has seen a model which takes these times."""
    fit = StepTimeFit()
    for _ in range(100):
        for tokens, behind in ((1, 100), (8, 0), (64, 1000), (1, 3000), (40, 500)):
            load = StepLoad(tokens, attended_by(tokens, behind=behind))
            fit.observe(load, base_s + token_s * tokens + attended_s * load.attended)
    return fit


def settled(slices: FittedSlice, *, small_tokens: int, context: int) -> int:
    """The slice once it has grown as far as it does."""
    for _ in range(10):
        slices.tokens(small_tokens=small_tokens, context=context)
    return slices.tokens(small_tokens=small_tokens, context=context)


def test_a_fixed_slice_is_what_it_says() -> None:
    assert FixedSlice(100).tokens(small_tokens=5, context=4000) == 100


def test_before_times_are_known_it_is_moderate() -> None:
    assert FittedSlice(StepTimeFit()).tokens(small_tokens=5, context=0) == UNKNOWN


def test_a_slice_adds_about_one_small_step() -> None:
    slices = FittedSlice(fit_of(0.045, 0.0017))
    assert settled(slices, small_tokens=5, context=0) == 32
    assert settled(slices, small_tokens=40, context=0) == 64
    assert settled(slices, small_tokens=100, context=0) == 128


def test_it_may_take_longer_while_only_prompts_are_read() -> None:
    slices = FittedSlice(fit_of(0.045, 0.0017))
    assert settled(slices, small_tokens=0, context=0) == 64


def test_a_long_context_makes_it_shorter() -> None:
    slices = FittedSlice(fit_of(0.100, 0.0005, 1e-6))
    near = settled(slices, small_tokens=1, context=0)
    far = settled(slices, small_tokens=1, context=4000)
    assert near > far >= SHORTEST


@pytest.mark.parametrize("token_s", [0.0, 1e-7])
def test_where_tokens_cost_nothing_it_is_as_long_as_may_be(token_s: float) -> None:
    slices = FittedSlice(fit_of(0.010, token_s))
    assert settled(slices, small_tokens=1, context=0) == LONGEST


def test_it_grows_no_faster_than_times_become_known() -> None:
    slices = FittedSlice(fit_of(0.010, 0.0))
    grown = [slices.tokens(small_tokens=1, context=0) for _ in range(7)]
    assert grown == [128, 256, 512, 1024, 2048, 2048, 2048]


def test_where_tokens_cost_everything_it_is_as_short_as_may_be() -> None:
    assert FittedSlice(fit_of(1e-6, 0.010)).tokens(small_tokens=1, context=0) == SHORTEST
