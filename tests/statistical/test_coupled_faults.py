"""Planted faults of COUPLED: how far each moves the law, and that the experiments find it."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from outrider.testing.exactness.experiments import FirstTwoTokens, Transitions
from outrider.testing.exactness.faulty_coupled import (
    NoiseForAllPositions,
    NoiseForAllTokens,
    NoiseForWholeRounds,
    OwnNoise,
    RecoveredFromResidual,
    SecondBestAccepted,
)
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair

PAIR = random_pair(seed=1)
SIZE = PAIR.vocabulary_size
CONTEXTS = list(product(range(SIZE), repeat=2))[::8]
DRAWS = 50_000
FAULTS = [
    NoiseForAllTokens,
    NoiseForAllPositions,
    NoiseForWholeRounds,
    RecoveredFromResidual,
    SecondBestAccepted,
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("law", "stages"),
    [
        pytest.param(
            FirstTwoTokens, Stages(alarm_samples=1_000, verdict_samples=2_000), id="quick"
        ),
        *(
            pytest.param(
                law,
                Stages(alarm_samples=50_000, verdict_samples=100_000),
                id=law.__name__,
                marks=pytest.mark.slow,
            )
            for law in (FirstTwoTokens, Transitions)
        ),
    ],
)
def test_planted_fault_fails_both_stages(fault, law, stages):
    experiment = law(PAIR, fault(PAIR))
    assert stages.alarmed(experiment)
    assert stages.failed(experiment)


def test_without_a_fault_nothing_is_found():
    assert Stages(alarm_samples=2_000).passes(FirstTwoTokens(PAIR, OwnNoise(PAIR)))


class Simulated:
    """Two tokens after a context, many times: the noise, the target's choices and the draft's."""

    def __init__(self, context: tuple[int, int]) -> None:
        generator = torch.Generator().manual_seed(SIZE * context[0] + context[1])
        uniform = torch.rand(2, DRAWS, SIZE, generator=generator, dtype=torch.float64)
        self.noise = -(-uniform.clamp(min=1e-300).log()).log()
        self.context = context
        self.target = PAIR.target[context].log_softmax(dim=0)
        self.draft = PAIR.draft[context].log_softmax(dim=0)
        self.first = (self.target + self.noise[0]).argmax(dim=1)
        self.drafted = (self.draft + self.noise[0]).argmax(dim=1)

    def second(self, first: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """What follows the context and `first`."""
        return (PAIR.target[self.context[1]].log_softmax(dim=1)[first] + noise).argmax(dim=1)


def distance(first: torch.Tensor, second: torch.Tensor, context: tuple[int, int]) -> float:
    """Of the law of pairs from that of the target."""
    counts = torch.zeros(SIZE * SIZE, dtype=torch.float64)
    counts.index_add_(0, first * SIZE + second, torch.ones(DRAWS, dtype=torch.float64))
    expected = PAIR.target[context].softmax(dim=0)[:, None] * PAIR.target[context[1]].softmax(dim=1)
    return float((counts / DRAWS - expected.flatten()).abs().sum()) / 2


def without_a_fault(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn.first, drawn.second(drawn.first, drawn.noise[1])


def for_all_tokens(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    first = drawn.target.argmax().expand(DRAWS)
    return first, drawn.second(first, torch.zeros(DRAWS, SIZE, dtype=torch.float64))


def for_all_positions(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn.first, drawn.second(drawn.first, drawn.noise[0])


def for_whole_rounds(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    """One draft token: the second token is of the same round where that is accepted."""
    same_round = (drawn.first == drawn.drafted)[:, None]
    noise = torch.where(same_round, drawn.noise[0], drawn.noise[1])
    return drawn.first, drawn.second(drawn.first, noise)


def from_residual(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    fresh = -(-torch.rand(DRAWS, SIZE, dtype=torch.float64).clamp(min=1e-300).log()).log()
    others = (drawn.target + fresh).scatter(1, drawn.drafted[:, None], -torch.inf).argmax(dim=1)
    first = torch.where(drawn.first == drawn.drafted, drawn.first, others)
    return first, drawn.second(first, drawn.noise[1])


def second_best(drawn: Simulated) -> tuple[torch.Tensor, torch.Tensor]:
    best_two = (drawn.target + drawn.noise[0]).topk(2, dim=1).indices
    good = (best_two == drawn.drafted[:, None]).any(dim=1)
    first = torch.where(good, drawn.drafted, drawn.first)
    return first, drawn.second(first, drawn.noise[1])


def mean_distance(law) -> float:
    distances = []
    for context in CONTEXTS:
        first, second = law(Simulated(context))
        distances.append(distance(first, second, context))
    return sum(distances) / len(distances)


@pytest.mark.parametrize(
    "law", [for_all_tokens, for_all_positions, for_whole_rounds, from_residual, second_best]
)
def test_planted_fault_moves_the_law_by_two_percent(law):
    torch.manual_seed(0)
    # What chance alone makes of so many draws is no distance.
    assert mean_distance(law) - mean_distance(without_a_fault) >= 0.02
