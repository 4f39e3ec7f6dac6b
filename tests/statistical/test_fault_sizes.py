"""How far each planted fault moves the law, computed on the tables that the experiments use."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
import torch

from draft_service.proposal import CandidateCut, cut_law
from outrider.draft_law import CutLaw
from outrider.engine.columns import Columns
from outrider.testing.exactness.tables import random_pair
from target_service.rejection import acceptance_probability, accepts, draw_from, residual

PAIR = random_pair(seed=1)
SIZE = PAIR.vocabulary_size
COLUMNS = Columns(SIZE)
CUT = CandidateCut(candidates=4)
UNCUT = CandidateCut(mass=1.0)
CONTEXTS = list(product(range(SIZE), repeat=2))
GRID = 4096
WORDS = [(2 * step + 1) << 51 for step in range(GRID)]


def p_after(context: tuple[int, int], temperature: float = 1.0) -> torch.Tensor:
    return (PAIR.target[context] / temperature).softmax(dim=0)


def law_after(
    context: tuple[int, int], cut: CandidateCut = CUT, temperature: float = 1.0
) -> CutLaw:
    return cut_law((PAIR.draft[context] / temperature).softmax(dim=0), columns=COLUMNS, cut=cut)


def candidates(law: CutLaw) -> Iterable[tuple[int, float]]:
    total = sum(law.weights)
    return ((x, weight / total) for x, weight in zip(law.token_ids, law.weights, strict=True))


def normalised(mass: torch.Tensor) -> torch.Tensor:
    return mass / mass.sum()


def judged(p: torch.Tensor, drawn: CutLaw, reported: CutLaw) -> torch.Tensor:
    """The law of a judged token that was drawn from one law and reported with another."""
    law = torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(drawn):
        accept = float(acceptance_probability(float(p[x]), reported, x))
        law[x] += q * accept
        law += q * (1.0 - accept) * normalised(residual(p, reported, x))
    return law


def residual_from_p(context: tuple[int, int]) -> torch.Tensor:
    p, law = p_after(context), torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(law_after(context)):
        accept = float(acceptance_probability(float(p[x]), law_after(context), x))
        law[x] += q * accept
        law += q * (1.0 - accept) * p
    return law


def uncut_reported(context: tuple[int, int]) -> torch.Tensor:
    return judged(p_after(context), law_after(context), law_after(context, UNCUT))


def other_temperature_reported(context: tuple[int, int]) -> torch.Tensor:
    drawn = law_after(context, UNCUT)
    return judged(p_after(context), drawn, law_after(context, UNCUT, temperature=0.6))


def accept_recover_shared(context: tuple[int, int]) -> torch.Tensor:
    p, drawn, law = p_after(context), law_after(context), torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(drawn):
        accept, left = acceptance_probability(float(p[x]), drawn, x), residual(p, drawn, x)
        for word in WORDS:
            law[x if accepts(word, accept) else draw_from(left, word)] += q / GRID
    return law


def draft_recover_shared(context: tuple[int, int]) -> torch.Tensor:
    p, drawn, law = p_after(context), law_after(context), torch.zeros(SIZE, dtype=torch.float64)
    left = residual(p, drawn, drawn.token_ids[0])
    for word in WORDS:
        x = drawn.draw(word)
        accept = float(acceptance_probability(float(p[x]), drawn, x))
        law[x] += accept / GRID
        law[draw_from(left, word)] += (1.0 - accept) / GRID
    return law


def draft_accept_shared(context: tuple[int, int]) -> torch.Tensor:
    p, drawn, law = p_after(context), law_after(context), torch.zeros(SIZE, dtype=torch.float64)
    for word in WORDS:
        x = drawn.draw(word)
        if accepts(word, acceptance_probability(float(p[x]), drawn, x)):
            law[x] += 1.0 / GRID
        else:
            law += normalised(residual(p, drawn, x)) / GRID
    return law


def unchecked(context: tuple[int, int]) -> torch.Tensor:
    law = torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(law_after(context)):
        law[x] = q
    return law


def peeked(context: tuple[int, int]) -> torch.Tensor:
    p, drawn, law = p_after(context), law_after(context), torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(drawn):
        if q < 0.3:
            law += q * p
            continue
        accept = float(acceptance_probability(float(p[x]), drawn, x))
        law[x] += q * accept
        law += q * (1.0 - accept) * normalised(residual(p, drawn, x))
    return law


def fresh_after_mismatch(context: tuple[int, int]) -> torch.Tensor:
    p, law = p_after(context), torch.zeros(SIZE, dtype=torch.float64)
    for x, q in candidates(law_after(context)):
        law[x] += q * p[x]
        law += q * (1.0 - p[x]) * p
    return law


@pytest.mark.parametrize(
    ("faulty", "asked_temperature"),
    [
        (residual_from_p, 1.0),
        (uncut_reported, 1.0),
        (other_temperature_reported, 1.0),
        (accept_recover_shared, 1.0),
        (draft_recover_shared, 1.0),
        (draft_accept_shared, 1.0),
        (unchecked, 1.0),
        (peeked, 1.0),
        (fresh_after_mismatch, 1.0),
        # Verified rows left unshaped: the law is p at temperature 1 whatever was asked.
        (p_after, 0.5),
    ],
)
def test_planted_fault_moves_the_law_by_two_percent(faulty, asked_temperature):
    distances = [
        float((faulty(context) - p_after(context, asked_temperature)).abs().sum()) / 2
        for context in CONTEXTS[::4]
    ]
    assert sum(distances) / len(distances) >= 0.02


@pytest.mark.parametrize("cut", [CUT, UNCUT, CandidateCut(candidates=1)])
def test_without_a_fault_the_law_does_not_move(cut):
    for context in CONTEXTS:
        p, drawn = p_after(context), law_after(context, cut)
        torch.testing.assert_close(judged(p, drawn, drawn), p, rtol=0, atol=1e-12)
