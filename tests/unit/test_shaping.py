"""Shaping: temperature, truncation, and what may not happen to the numbers."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.errors import NumericalFailure

LOGITS = torch.tensor([[1.0, 3.0, 2.0, 3.0, -1.0]], dtype=torch.float64)


def shaped(logits: torch.Tensor, options: SamplingOptions) -> torch.Tensor:
    return target_probs(
        logits,
        options,
        columns=Columns(logits.shape[1]),
        token_ids=[0],
        draft_token_ids=[0] * (logits.shape[0] - 1),
        prompt_length=1,
    )


def support(probs: torch.Tensor) -> list[list[int]]:
    return [row.nonzero().flatten().tolist() for row in probs]


def test_without_options_it_is_softmax():
    torch.testing.assert_close(shaped(LOGITS, SamplingOptions()), LOGITS.softmax(dim=1))


@pytest.mark.parametrize("temperature", [0.0, 1e-12, 1e-5])
def test_tiny_temperature_is_greedy_and_the_lower_id_wins(temperature):
    probs = shaped(LOGITS, SamplingOptions(temperature=temperature))
    assert probs.tolist() == [[0.0, 1.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [1.1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("top_p", [1e-6, 0.5, 1.0])
@pytest.mark.parametrize("top_k", [0, 2])
def test_small_temperature_stays_finite(dtype, temperature, top_p, top_k):
    logits = torch.tensor([[-6e4, 6e4, 0.0], [0.0, -torch.inf, 5e-5]]).to(dtype)
    options = SamplingOptions(temperature=temperature, top_p=top_p, top_k=top_k, min_p=1e-3)
    probs = shaped(logits, options)
    assert bool(probs.isfinite().all())
    torch.testing.assert_close(probs.sum(dim=1), torch.ones_like(probs[:, 0]))
    assert probs.argmax(dim=1).tolist() == [1, 2]


@pytest.mark.parametrize("top_p", [0.0, 1e-6])
def test_tiny_top_p_keeps_the_most_likely_alone(top_p):
    assert shaped(LOGITS, SamplingOptions(top_p=top_p)).tolist() == [[0.0, 1.0, 0.0, 0.0, 0.0]]


def test_top_k_keeps_exactly_k_and_the_lower_id_among_equals():
    assert support(shaped(LOGITS, SamplingOptions(top_k=1))) == [[1]]
    assert support(shaped(LOGITS, SamplingOptions(top_k=3))) == [[1, 2, 3]]
    assert support(shaped(torch.zeros(2, 9), SamplingOptions(top_k=4))) == [[0, 1, 2, 3]] * 2


def test_top_p_counts_the_mass_after_top_k():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    # Of the top two, the first alone has 0.625 of the mass.
    assert support(shaped(logits, SamplingOptions(top_k=2, top_p=0.6))) == [[0]]
    assert support(shaped(logits, SamplingOptions(top_p=0.6))) == [[0, 1]]


def test_min_p_is_a_share_of_the_most_likely():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert support(shaped(logits, SamplingOptions(min_p=0.29))) == [[0, 1, 2]]
    assert support(shaped(logits, SamplingOptions(min_p=0.31))) == [[0, 1]]


@pytest.mark.parametrize("top_p", [0.5, 0.9, 0.999])
def test_top_p_over_a_flat_vocabulary_of_many_ids(top_p):
    logits = torch.randn(3, 5_000, generator=torch.Generator().manual_seed(0)).double()
    logits[1, :400] += 12.0
    probs = shaped(logits, SamplingOptions(top_p=top_p))
    full, order = logits.softmax(dim=1).sort(dim=1, descending=True)
    kept = full.cumsum(dim=1) - full < top_p
    expected = torch.zeros_like(full).scatter(1, order, full * kept)
    expected /= expected.sum(dim=1, keepdim=True)
    torch.testing.assert_close(probs, expected, rtol=0, atol=1e-14)


def test_top_p_over_a_flat_vocabulary_of_equals_keeps_the_lower_ids():
    probs = shaped(torch.zeros(2, 1_000), SamplingOptions(top_p=0.7))
    assert support(probs) == [list(range(700))] * 2


def test_greedy_and_random_rows_of_a_batch_do_not_touch_each_other():
    banned = SamplingOptions(temperature=0.0, min_tokens=5, stop_token_ids=(1, 3))
    for options, expected in ((banned, [2, 2]), (SamplingOptions(top_k=1), [1, 1])):
        probs = shaped(LOGITS.expand(2, -1), options)
        assert bool(probs.isfinite().all())
        assert probs.argmax(dim=1).tolist() == expected


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(),
        SamplingOptions(temperature=0.0),
        SamplingOptions(temperature=0.7, min_p=0.1),
        SamplingOptions(top_k=2),
        SamplingOptions(top_p=0.5),
        SamplingOptions(logit_bias={1: -100.0}, repetition_penalty=2.0, frequency_penalty=1.0),
        SamplingOptions(min_tokens=9, stop_token_ids=(1,)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_logits_are_left_as_they_are(options, dtype):
    logits = LOGITS.to(dtype).repeat(2, 1)
    before = logits.clone()
    probs = shaped(logits, options)
    assert torch.equal(logits, before)
    assert probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_no_law_is_an_error(bad, temperature):
    logits = LOGITS.repeat(2, 1)
    logits[1, 2] = bad
    with pytest.raises(NumericalFailure):
        shaped(logits, SamplingOptions(temperature=temperature))
    with pytest.raises(NumericalFailure):
        shaped(torch.full((1, 3), -torch.inf), SamplingOptions(temperature=temperature))
