"""The output law through the real services: gRPC, both streams, KV handles, concurrency."""

from __future__ import annotations

import pytest

from draft_service.proposal import CandidateCut
from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.experiments import (
    FirstTwoTokens,
    Transitions,
    no_seeds,
    numbered_seeds,
)
from outrider.testing.exactness.network import network_decoder
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair

# The draft is much like the target, so that rounds are long and all places in one are seen.
PAIR = random_pair(seed=1, likeness=0.8)
SEEDS = {"seeded": numbered_seeds, "unseeded": no_seeds}
MODES = {
    "plain": SamplingOptions(),
    "cold": SamplingOptions(temperature=0.3),
    "top-k": SamplingOptions(top_k=3),
    "top-p": SamplingOptions(top_p=0.8),
    "together": SamplingOptions(temperature=1.3, top_k=6, top_p=0.95, min_p=0.05),
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mode", "seeds"),
    [
        pytest.param(
            mode, seeds, marks=[] if (mode, seeds) == ("together", "seeded") else pytest.mark.slow
        )
        for mode in MODES
        for seeds in SEEDS
    ],
)
def test_transitions_through_the_network(mode: str, seeds: str) -> None:
    with network_decoder(PAIR, cut=CandidateCut(candidates=4)) as decoder:
        experiment = Transitions(PAIR, decoder, MODES[mode], seeds=SEEDS[seeds])
        assert Stages().passes(experiment)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_first_two_tokens_through_the_network(trust: str) -> None:
    with network_decoder(PAIR, draft_trust=trust) as decoder:
        assert Stages().passes(FirstTwoTokens(PAIR, decoder, seeds=no_seeds))
