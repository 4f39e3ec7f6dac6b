"""q · min(1, p ÷ q) + P(reject) · residual = p, computed from the rule's own pieces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from draft_service.proposal import CandidateCut, cut_law
from outrider.draft_law import MAX_WEIGHT, POINT_MASS, CutLaw
from outrider.engine.columns import Columns
from target_service.rejection import acceptance_probability, residual

PAIRS = 10_000
Pair = tuple[torch.Tensor, CutLaw]


def random_probs(size: int, generator: torch.Generator) -> torch.Tensor:
    """Flat ones and peaked ones, some with impossible tokens."""
    sharpness = float(torch.rand((), generator=generator)) * 6.0
    scores = sharpness * torch.randn(size, generator=generator, dtype=torch.float64)
    probs = scores.softmax(dim=0)
    impossible = torch.rand(size, generator=generator) < 0.2
    impossible[int(probs.argmax())] = False
    probs[impossible] = 0.0
    return probs / probs.sum()


def pairs(seed: int, cut: CandidateCut) -> Iterator[Pair]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(PAIRS):
        size = int(torch.randint(2, 13, (), generator=generator))
        p, q = random_probs(size, generator), random_probs(size, generator)
        yield p, cut_law(q, columns=Columns(size), cut=cut)


def any_weights() -> Iterator[Pair]:
    """Laws in any order, their weights over the whole range."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(PAIRS):
        size = int(torch.randint(2, 13, (), generator=generator))
        count = int(torch.randint(1, size + 1, (), generator=generator))
        token_ids = torch.randperm(size, generator=generator)[:count]
        weights = torch.randint(1, MAX_WEIGHT + 1, (count,), generator=generator)
        yield (
            random_probs(size, generator),
            CutLaw(tuple(token_ids.tolist()), tuple(weights.tolist())),
        )


def disjoint() -> Iterator[Pair]:
    for p, law in any_weights():
        apart = p.clone()
        apart[list(law.token_ids)] = 0.0
        if bool(apart.any()):
            yield apart / apart.sum(), law


def equal() -> Iterator[Pair]:
    for p, law in any_weights():
        q = torch.zeros_like(p)
        q[list(law.token_ids)] = torch.tensor(law.weights, dtype=torch.float64)
        yield q / q.sum(), law


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(lambda: pairs(2, CandidateCut(mass=1.0)), id="whole q"),
        pytest.param(lambda: pairs(3, CandidateCut(candidates=3)), id="cut q"),
        pytest.param(any_weights, id="any weights"),
        pytest.param(disjoint, id="disjoint"),
        pytest.param(equal, id="p equal to q"),
    ],
)
def test_a_judged_token_has_the_law_p(chosen):
    for p, law in chosen():
        total = sum(law.weights)
        output = torch.zeros_like(p)
        rejected = 0.0
        for token_id, weight in zip(law.token_ids, law.weights, strict=True):
            accepted = float(
                acceptance_probability(float(p[token_id]), law, token_id) * weight / total
            )
            output[token_id] += accepted
            rejected += weight / total - accepted
        left = residual(p, law, law.token_ids[0])
        output += rejected * left / left.sum()
        assert float((output - p).abs().max()) < 1e-12


def test_a_judged_point_mass_has_the_law_p():
    generator = torch.Generator().manual_seed(4)
    for _ in range(PAIRS):
        p = random_probs(int(torch.randint(2, 13, (), generator=generator)), generator)
        token_id = int(torch.randint(0, p.numel(), (), generator=generator))
        accepted = float(acceptance_probability(float(p[token_id]), POINT_MASS, token_id))
        left = residual(p, POINT_MASS, token_id)
        output = (1.0 - accepted) * left / left.sum()
        output[token_id] += accepted
        assert float((output - p).abs().max()) < 1e-12
