"""What the target says of how likely draft tokens were to be accepted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest
import torch

from outrider.draft_law import POINT_MASS, CutLaw, DraftLaw
from target_service.draft_check import ProposedToken
from target_service.expectation import NOT_SAID, expected_acceptance
from target_service.rejection import acceptance_probability

SIZE = 12


def random_law(generator: random.Random, count: int) -> CutLaw:
    token_ids = generator.sample(range(SIZE), count)
    return CutLaw(tuple(token_ids), tuple(generator.randint(1, 65535) for _ in token_ids))


def by_enumeration(p: torch.Tensor, law: CutLaw) -> float:
    """Σ q(x) · P(x is accepted), over what the draft can draw."""
    return sum(
        weight / sum(law.weights) * float(acceptance_probability(float(p[token_id]), law, token_id))
        for token_id, weight in zip(law.token_ids, law.weights, strict=True)
    )


def some_rows(*, seed: int, count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, SIZE, generator=generator, dtype=torch.float64)
    logits[logits < -2] = -torch.inf
    return torch.softmax(logits, dim=-1).to(dtype)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_share_that_the_rule_accepts(seed: int) -> None:
    generator = random.Random(seed)
    laws = [random_law(generator, generator.randint(1, SIZE)) for _ in range(5)]
    probs = some_rows(seed=seed, count=6)
    drafts = [ProposedToken(law.token_ids[0], law) for law in laws]

    found = expected_acceptance(probs, drafts)

    expected = [by_enumeration(row, law) for row, law in zip(probs, laws, strict=False)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_it_does_not_depend_on_the_token_that_was_drawn() -> None:
    law = CutLaw((4, 1, 7), (3, 2, 9))
    probs = some_rows(seed=1, count=1)
    found = {tuple(expected_acceptance(probs, [ProposedToken(x, law)])) for x in law.token_ids}
    assert len(found) == 1


def test_probabilities_of_another_type_are_summed_in_float64() -> None:
    law = CutLaw(tuple(range(SIZE)), (1000,) * SIZE)
    (found,) = expected_acceptance(
        some_rows(seed=1, count=1, dtype=torch.float32), [ProposedToken(0, law)]
    )
    (exact,) = expected_acceptance(some_rows(seed=1, count=1), [ProposedToken(0, law)])
    assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("others", list(product([POINT_MASS, None], repeat=2)), ids=str)
def test_it_is_said_of_every_drawn_token_whatever_is_around_it(others: Sequence[DraftLaw]) -> None:
    law, probs = CutLaw((1, 5), (5, 2)), some_rows(seed=1, count=4)
    drafts = [ProposedToken(1, each) for each in (others[0], law, others[1])]
    (expected,) = expected_acceptance(probs[1:], [ProposedToken(1, law)])
    assert expected_acceptance(probs, drafts) == [NOT_SAID, expected, NOT_SAID]
    assert expected_acceptance(probs, drafts[:2]) == [NOT_SAID, expected]
    assert expected_acceptance(probs, drafts[:1]) == ()


def test_nothing_is_said_of_no_draft_token() -> None:
    assert expected_acceptance(some_rows(seed=1, count=1), []) == ()
