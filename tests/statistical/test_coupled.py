"""COUPLED output is distributed as the target alone would have it, whatever the draft does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import pytest
import torch

from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.coupled import CoupledDecoder, meeting_probs
from outrider.testing.exactness.decoding import Request
from outrider.testing.exactness.experiments import (
    FirstTwoTokens,
    Transitions,
    numbered_seeds,
    random_seeds,
)
from outrider.testing.exactness.faulty_coupled import (
    NoiseForWholeRounds,
    RecoveredFromResidual,
    SecondBestAccepted,
)
from outrider.testing.exactness.in_process import InProcessDecoder, Schedule
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import TablePair, random_pair

PAIR = random_pair(seed=1)
PROMPT = (3, 5)
PLAIN = SamplingOptions()
TOGETHER = SamplingOptions(temperature=1.3, top_k=6, top_p=0.95, min_p=0.05)
PENALTIES = SamplingOptions(repetition_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.8)
QUICK = Stages(alarm_samples=5_000, verdict_samples=50_000)
SCHEDULES = [Schedule(draft_lengths=(k,)) for k in range(9)] + [
    Schedule(draft_lengths=(3, 1, 0, 2), replay_every=0),
    Schedule(draft_lengths=(0, 8, 5)),
]


@pytest.mark.parametrize(
    ("options", "stages", "seeds"),
    [
        pytest.param(PLAIN, QUICK, numbered_seeds, id="plain"),
        pytest.param(PLAIN, Stages(), random_seeds, id="plain full", marks=pytest.mark.slow),
        pytest.param(TOGETHER, Stages(), numbered_seeds, id="together", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(1800)
def test_transitions(options, stages, seeds):
    experiment = Transitions(PAIR, CoupledDecoder(PAIR, options), options, seeds=seeds)
    assert stages.passes(experiment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [PLAIN, PENALTIES], ids=["plain", "past"])
def test_first_two_tokens(options):
    decoder = CoupledDecoder(PAIR, options)
    assert Stages().passes(FirstTwoTokens(PAIR, decoder, options))


def output(decoder: InProcessDecoder, seed: int, length: int = 30) -> Sequence[int]:
    request = Request(PROMPT, decoder.options, seed, length)
    return list(chain.from_iterable(one.output_token_ids for one in decoder.decode(request)))


def outputs_for_all_drafts(decoder: type[CoupledDecoder], options: SamplingOptions, seed: int):
    """What one seed gives: any draft length, and drafts from like to useless."""
    drafts = [PAIR.target, PAIR.draft, PAIR.target.flip(2), random_pair(seed=9).draft]
    return {
        tuple(output(decoder(TablePair(PAIR.target, draft), options, schedule=schedule), seed))
        for draft in drafts
        for schedule in SCHEDULES[:: 1 if draft is PAIR.draft else 3]
    }


@pytest.mark.parametrize("options", [PLAIN, TOGETHER, PENALTIES], ids=["plain", "together", "past"])
def test_no_draft_changes_the_output(options):
    found = outputs_for_all_drafts(CoupledDecoder, options, 0)
    assert len(found) == 1
    assert tuple(output(CoupledDecoder(PAIR, options), 2**64 - 1)) not in found


@pytest.mark.parametrize("faulty", [NoiseForWholeRounds, RecoveredFromResidual, SecondBestAccepted])
def test_a_rule_that_minds_the_draft_is_found_so(faulty):
    assert len(outputs_for_all_drafts(faulty, PLAIN, 0)) > 1


def test_acceptance_is_that_of_the_theory():
    """Each first draft token is accepted as often as two shared choices meet."""
    decoder = CoupledDecoder(PAIR, schedule=Schedule(draft_lengths=(1,), replay_every=0))
    meets = meeting_table()
    surplus = variance = 0.0
    for seed in range(4):
        before = list(PROMPT)
        for one in decoder.decode(Request(PROMPT, PLAIN, seed, 600)):
            expected = float(meets[before[-2], before[-1]])
            surplus += one.accepted - expected
            variance += expected * (1.0 - expected)
            before += one.output_token_ids
    assert abs(surplus) < 4.0 * math.sqrt(variance)


def meeting_table() -> torch.Tensor:
    """[vocabulary, vocabulary]: the acceptance after each two tokens."""
    size = PAIR.vocabulary_size
    return torch.tensor(
        [
            [
                float(
                    meeting_probs(PAIR.target[a, b].softmax(0), PAIR.draft[a, b].softmax(0)).sum()
                )
                for b in range(size)
            ]
            for a in range(size)
        ]
    )


def test_acceptance_lies_between_its_bounds():
    """(1 − d) ÷ (1 + d) and 1 − d, where d is the distance of the laws (Daliri et al., 2024)."""
    generator = torch.Generator().manual_seed(3)
    for spread in (0.1, 1.0, 5.0):
        logits = spread * torch.randn(200, 2, 20, generator=generator, dtype=torch.float64)
        for p, q in logits.softmax(dim=2):
            distance = float((p - q).abs().sum()) / 2
            meeting = float(meeting_probs(p, q).sum())
            assert (1 - distance) / (1 + distance) - 1e-12 <= meeting <= 1 - distance + 1e-12
        p = logits[0, 0].softmax(dim=0)
        torch.testing.assert_close(meeting_probs(p, p), p)
