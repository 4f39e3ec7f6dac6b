"""The output law through the real services: gRPC, both streams, KV handles, concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from draft_service.proposal import CandidateCut
from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.experiments import (
    FirstTwoTokens,
    Transitions,
    no_seeds,
    numbered_seeds,
)
from outrider.testing.exactness.network import Conditions, network_decoder
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair
from outrider.testing.scripted import ScriptedModel
from outrider.v1 import common_pb2

# The draft is much like the target, so that rounds are long and all places in one are seen.
PAIR = random_pair(seed=1, likeness=0.8)
SYNCHRONOUS = Conditions(cut=CandidateCut(candidates=4), settings={"draft_ahead": False})
SEEDS = {"seeded": numbered_seeds, "unseeded": no_seeds}
MODES = {
    "plain": SamplingOptions(),
    "cold": SamplingOptions(temperature=0.3),
    "top-k": SamplingOptions(top_k=3),
    "top-p": SamplingOptions(top_p=0.8),
    "together": SamplingOptions(temperature=1.3, top_k=6, top_p=0.95, min_p=0.05),
}


@pytest.mark.timeout(1200)
def test_transitions_of_few_ids_through_the_network() -> None:
    """Over four ids, where fewer samples tell as much. Planted faults are found after a quarter of
    these, over eight ids too."""
    pair = random_pair(seed=1, vocabulary_size=4, likeness=0.8)
    options = replace(MODES["together"], top_k=3)
    with network_decoder(pair, replace(SYNCHRONOUS, cut=CandidateCut(candidates=3))) as decoder:
        experiment = Transitions(
            pair, decoder, options, prompt_token_ids=(1, 2), seeds=numbered_seeds
        )
        assert Stages(alarm_samples=40_000, verdict_samples=400_000).passes(experiment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("mode", MODES)
def test_transitions_through_the_network(mode: str, seeds: str) -> None:
    with network_decoder(PAIR, SYNCHRONOUS) as decoder:
        experiment = Transitions(PAIR, decoder, MODES[mode], seeds=SEEDS[seeds])
        assert Stages().passes(experiment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", SEEDS)
def test_coupled_transitions_through_the_network(seeds: str) -> None:
    coupled = Conditions(verification=common_pb2.VERIFICATION_COUPLED)
    with network_decoder(PAIR, coupled) as decoder:
        experiment = Transitions(PAIR, decoder, MODES["together"], seeds=SEEDS[seeds])
        assert Stages().passes(experiment)


def draft_that_knows(size: int) -> ScriptedModel:
    """The pair's draft with fewer ids than the target, or with more, which it likes best."""

    def logits(token_ids: Sequence[int]) -> torch.Tensor:
        known = PAIR.draft_logits([min(token_id, size - 1) for token_id in token_ids])
        extra = torch.full((max(0, size - PAIR.vocabulary_size),), 5.0, dtype=torch.float64)
        return torch.cat([known, extra])[:size]

    return ScriptedModel(logits, vocabulary_size=size)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("size", [6, 11])
def test_a_draft_with_another_vocabulary_keeps_the_law(size: int) -> None:
    with network_decoder(PAIR, Conditions(draft=draft_that_knows(size))) as decoder:
        assert Stages().passes(Transitions(PAIR, decoder))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_first_two_tokens_through_the_network(trust: str) -> None:
    with network_decoder(PAIR, Conditions(settings={"draft_trust": trust})) as decoder:
        assert Stages().passes(FirstTwoTokens(PAIR, decoder, seeds=no_seeds))
