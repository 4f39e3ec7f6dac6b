"""The parts of the exactness experiments that could be wrong without a decoder being wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from scipy import stats

from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.decoding import Place, Request, Round, places
from outrider.testing.exactness.experiments import (
    FirstTwoTokens,
    Transitions,
    numbered_seeds,
    random_seeds,
)
from outrider.testing.exactness.fit import fit_p_value
from outrider.testing.exactness.in_process import InProcessDecoder
from outrider.testing.exactness.stages import FRESH, Stages
from outrider.testing.exactness.tables import random_pair


def test_p_value_is_that_of_pearsons_test():
    counts = torch.tensor([[18, 31, 51], [200, 180, 220]], dtype=torch.float64)
    probs = torch.tensor([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]], dtype=torch.float64)
    statistic = sum(
        stats.chisquare(seen, [sum(seen) * prob for prob in law]).statistic
        for seen, law in zip(counts.tolist(), probs.tolist(), strict=True)
    )
    expected = stats.chi2.sf(statistic, df=4)
    assert fit_p_value(counts, probs) == pytest.approx(expected, rel=1e-6)


def test_p_values_of_a_true_law_are_uniform():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(20, 6, generator=generator, dtype=torch.float64) ** 4
    probs /= probs.sum(dim=1, keepdim=True)
    p_values = []
    for _ in range(400):
        draws = probs.multinomial(60, replacement=True, generator=generator)
        counts = torch.zeros_like(probs).scatter_add_(1, draws, torch.ones_like(draws).double())
        p_values.append(fit_p_value(counts, probs))
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_an_impossible_outcome_is_no_fit_and_nothing_to_compare_is():
    assert fit_p_value(torch.tensor([[99.0, 1.0]]), torch.tensor([[1.0, 0.0]])) == 0.0
    assert fit_p_value(torch.tensor([[99.0, 0.0]]), torch.tensor([[1.0, 0.0]])) == 1.0
    assert fit_p_value(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 0.5]])) == 1.0


def test_places_of_output_tokens():
    rounds = [
        Round(0, 0, [1]),
        Round(2, 2, [1, 2, 3]),
        Round(2, 1, [1, 2]),
        Round(1, 1, [1]),
        Round(1, 1, [1, 2]),
        Round(3, 0, [1]),
        Round(2, 1, [1, 2], foreseen=True),
        Round(0, 0, [1]),
        Round(3, 3, [1, 2, 3], replayed=True),
    ]
    assert places(rounds) == [
        *[Place.ALONE],
        *[Place.FIRST, Place.INSIDE, Place.BONUS],
        *[Place.AFTER_BONUS, Place.INSIDE],
        *[Place.AFTER_REJECTION],
        *[Place.AFTER_ALL, Place.BONUS],
        *[Place.AFTER_BONUS],
        *[Place.FORESEEN, Place.INSIDE],
        *[Place.ALONE],
        *[Place.AFTER_REPLAY, Place.INSIDE, Place.INSIDE],
    ]


def test_every_place_occurs_in_the_transitions():
    """But for guesses, which a process alone does not make."""
    pair = random_pair(seed=1)
    found = Transitions(pair, InProcessDecoder(pair)).p_values(first=0, samples=1_000)
    assert set(found) == set(Place) - {Place.FORESEEN}


def test_seeds_are_repeatable_and_fresh_in_the_second_stage():
    assert list(numbered_seeds(3, 4)) == [3, 4, 5, 6]
    assert random_seeds(0, 5) == random_seeds(0, 5)
    assert not set(random_seeds(0, 1_000)) & set(random_seeds(FRESH, 1_000))


def test_expected_pairs_are_the_product_of_two_softmaxes():
    pair = random_pair(seed=1)
    expected = FirstTwoTokens(pair, InProcessDecoder(pair)).expected()
    one = pair.target[3, 5].softmax(dim=0)
    two = pair.target[5].softmax(dim=1)
    torch.testing.assert_close(expected, one[:, None] * two)


@dataclass
class Scripted:
    """An experiment whose p-values are known."""

    alarm: float
    verdict: float
    asked: list[tuple[int, int]] = field(default_factory=list)

    def p_value(self, *, first: int, samples: int) -> float:
        self.asked.append((first, samples))
        return self.verdict if first == FRESH else self.alarm


@pytest.mark.parametrize(
    ("alarm", "verdict", "passes"),
    [(0.5, math.nan, True), (0.009, 0.002, True), (0.009, 0.0009, False), (0.0, 0.0, False)],
)
def test_two_stages(alarm, verdict, passes):
    experiment = Scripted(alarm, verdict)
    assert Stages().passes(experiment) is passes
    stages = [(0, 200_000), (FRESH, 1_000_000)]
    assert experiment.asked == (stages if alarm < 0.01 else stages[:1])


def test_a_decoder_refuses_options_it_was_not_made_for():
    requests: Sequence[Request] = [Request((3, 5), SamplingOptions(top_k=2), 0, 2)]
    with pytest.raises(ValueError, match="other sampling options"):
        list(InProcessDecoder(random_pair(seed=1))(requests))
