"""The emulated pair agrees exactly as often as its prompts say."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

from outrider.engine.model import Chunk
from outrider.testing.emulated import (
    HITS,
    VOCABULARY_SIZE,
    Agreement,
    EmulatedModel,
    Law,
    emulated_draft,
    emulated_target,
)

POSITIONS = 2000
TOLERANCE = 0.045
"""Four standard errors of a share of 0.5 in POSITIONS."""


def rows_after(model: EmulatedModel, token_ids: Sequence[int], count: int) -> torch.Tensor:
    """What follows each of the last `count` prefixes, as logits [count, 64]."""
    return model.forward([Chunk(model.new_sequence(), token_ids, count)])[0]


def both(agreement: Agreement, *, count: int = POSITIONS) -> tuple[torch.Tensor, torch.Tensor]:
    """p's and q's logits at `count` positions of random text behind the prompt."""
    text = random.Random(7).choices(range(VOCABULARY_SIZE), k=count - 1)
    token_ids = [*agreement.prompt(salt=3), *text]
    return tuple(  # type: ignore[return-value]
        rows_after(model, token_ids, count) for model in (emulated_target(), emulated_draft())
    )


@pytest.mark.parametrize("acceptance", [0.0, 0.05, 0.3, 0.8, 1.0])
def test_a_peaked_draft_is_right_as_often_as_stated(acceptance: float) -> None:
    p, q = both(Agreement(acceptance=acceptance))
    right = (p.argmax(dim=1) == q.argmax(dim=1)).double().mean()
    assert float(right) == pytest.approx(acceptance, abs=TOLERANCE if 0 < acceptance < 1 else 0)


def test_being_right_at_one_position_says_nothing_of_the_next() -> None:
    p, q = both(Agreement(acceptance=0.5))
    right = (p.argmax(dim=1) == q.argmax(dim=1)).tolist()
    pairs = Counter(pairwise(right))
    assert all(abs(count / len(right) - 0.25) < TOLERANCE for count in pairs.values())


def test_a_peaked_draft_that_is_wrong_has_the_token_among_its_next_best() -> None:
    p, q = both(Agreement(acceptance=0.0), count=3500)
    choices = q.argsort(dim=1, descending=True, stable=True)
    ranks = (choices == p.argmax(dim=1)[:, None]).int().argmax(dim=1)
    shares = [float((ranks == rank).double().mean()) for rank in range(1 + len(HITS))]
    assert shares == pytest.approx([0.0, *HITS], abs=0.025)


@pytest.mark.parametrize("acceptance", [0.05, 0.3, 0.5, 0.95])
def test_spread_laws_share_exactly_the_stated_mass(acceptance: float) -> None:
    p, q = (
        logits.softmax(dim=1)
        for logits in both(Agreement(acceptance=acceptance, law=Law.SPREAD), count=50)
    )
    torch.testing.assert_close(
        torch.minimum(p, q).sum(dim=1), torch.full((50,), acceptance, dtype=torch.float64)
    )


def test_after_a_rejection_a_spread_draft_has_the_token_among_its_next_best() -> None:
    p, q = (
        logits.softmax(dim=1)
        for logits in both(Agreement(acceptance=0.6, law=Law.SPREAD), count=50)
    )
    rejected = (q - p).clamp(min=0.0)
    (token,) = rejected[0].nonzero()
    recovered = (p - q).clamp(min=0.0)[0]
    recovered /= recovered.sum()
    q[0, token] = 0.0
    next_best = q[0].argsort(descending=True, stable=True)[: len(HITS)]
    assert recovered[next_best].tolist() == pytest.approx(HITS)


def test_acceptance_may_change_on_the_way() -> None:
    agreement = Agreement(acceptance=1.0, meanwhile=0.0, since=64, until=128)
    p, q = both(agreement, count=200)
    right = (p.argmax(dim=1) == q.argmax(dim=1)).tolist()
    lengths = range(len(agreement.prompt(salt=3)), len(agreement.prompt(salt=3)) + 200)
    assert right == [not 64 <= length < 128 for length in lengths]


def test_another_salt_gives_another_output() -> None:
    tops = {
        tuple(rows_after(emulated_target(), Agreement(acceptance=0.5).prompt(salt), 1)[0].tolist())
        for salt in range(200)
    }
    assert len(tops) > VOCABULARY_SIZE // 2


def test_a_forward_takes_as_long_as_stated() -> None:
    model = emulated_target(step_time_s=0.02, row_time_s=0.001, attended_time_s=0.0001)
    prompt = Agreement(acceptance=0.5).prompt(1)
    since = time.perf_counter()
    model.forward([Chunk(model.new_sequence(), prompt, len(prompt))])
    attended = len(prompt) * (len(prompt) + 1) / 2
    assert time.perf_counter() - since >= 0.02 + 0.001 * len(prompt) + 0.0001 * attended
