"""Output is distributed as the target alone would have it, in every mode of the rule."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from draft_service.proposal import CandidateCut
from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.experiments import (
    FirstTwoTokens,
    Transitions,
    numbered_seeds,
    random_seeds,
)
from outrider.testing.exactness.in_process import InProcessDecoder, UntrustedDecoder
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair

PAIR = random_pair(seed=1)


@dataclass(frozen=True)
class Mode:
    options: SamplingOptions
    cut: CandidateCut = field(default_factory=CandidateCut)
    decoder: type[InProcessDecoder] = InProcessDecoder

    def decode(self) -> InProcessDecoder:
        return self.decoder(PAIR, self.options, self.cut)


PLAIN = SamplingOptions()
MODES = {
    "plain": Mode(PLAIN),
    "uncut": Mode(PLAIN, CandidateCut(mass=1.0)),
    "cut to two": Mode(PLAIN, CandidateCut(candidates=2)),
    "cold": Mode(SamplingOptions(temperature=0.3)),
    "hot": Mode(SamplingOptions(temperature=1.5)),
    "top-k": Mode(SamplingOptions(top_k=3)),
    "top-p": Mode(SamplingOptions(top_p=0.8)),
    "min-p": Mode(SamplingOptions(min_p=0.15)),
    "together": Mode(
        SamplingOptions(temperature=1.3, top_k=6, top_p=0.95, min_p=0.05),
        CandidateCut(candidates=3),
    ),
    "untrusted": Mode(PLAIN, decoder=UntrustedDecoder),
}
# The law reads the history, so that transitions say nothing.
HISTORY_MODES = {
    "penalties": Mode(
        SamplingOptions(repetition_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.8)
    ),
    "rewards": Mode(SamplingOptions(presence_penalty=-1.0, frequency_penalty=-0.5)),
    "bias and min_tokens": Mode(
        SamplingOptions(logit_bias={2: 1.5, 6: -100.0}, min_tokens=1, stop_token_ids=(0, 4))
    ),
}
SEEDS = {"seeded": numbered_seeds, "unseeded": random_seeds}

QUICK = [("plain", "seeded"), ("together", "unseeded"), ("untrusted", "unseeded")]
QUICK_PAIRS = Stages(alarm_samples=60_000, verdict_samples=300_000)
"""Planted faults are found after a twentieth of these."""


ALL_MODES = MODES | HISTORY_MODES


def first_two_tokens(mode: str, seeds: str) -> FirstTwoTokens:
    chosen = ALL_MODES[mode]
    return FirstTwoTokens(PAIR, chosen.decode(), chosen.options, seeds=SEEDS[seeds])


def test_first_two_tokens_quickly():
    assert QUICK_PAIRS.passes(first_two_tokens("plain", "seeded"))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("mode", ALL_MODES)
def test_first_two_tokens(mode, seeds):
    assert Stages().passes(first_two_tokens(mode, seeds))


@pytest.mark.parametrize(
    ("mode", "seeds"),
    [
        pytest.param(mode, seeds, marks=[] if (mode, seeds) in QUICK else [pytest.mark.slow])
        for mode in MODES
        for seeds in SEEDS
    ],
)
def test_transitions(mode, seeds):
    chosen = MODES[mode]
    experiment = Transitions(PAIR, chosen.decode(), chosen.options, seeds=SEEDS[seeds])
    assert Stages().passes(experiment)
