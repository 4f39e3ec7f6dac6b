"""COUPLED choices are those of the definition, computed plainly over all ids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.columns import Columns
from outrider.engine.coupling import coupled_choices, coupled_order
from outrider.engine.token_hash import token_hashes, token_words
from outrider.randomness import gumbel, token_word

WORDS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 2**31)


def plain_order(
    probs: Sequence[float], token_ids: Sequence[int], *, couple_seed: int, position: int
) -> list[int]:
    """All ids with p above 0, the largest log p + g first."""
    scores = {
        token_id: math.log(prob)
        + gumbel(token_word(couple_seed, position=position, token_id=token_id))
        for token_id, prob in zip(token_ids, probs, strict=True)
        if prob > 0.0
    }
    return sorted(scores, key=lambda token_id: (-scores[token_id], token_id))


@given(WORDS, POSITIONS, st.lists(st.integers(0, 2**31), min_size=1, max_size=40))
def test_words_are_bit_equal(couple_seed, position, ids):
    words = token_words(token_hashes(torch.tensor(ids)), stream_seed=couple_seed, position=position)
    assert [word % 2**64 for word in words.tolist()] == [
        token_word(couple_seed, position=position, token_id=token_id) for token_id in ids
    ]


@given(WORDS, POSITIONS, st.data())
def test_small_tables(couple_seed, position, data):
    """Few ids, many of them equal or impossible, in either precision."""
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    size = data.draw(st.integers(1, 12))
    masses = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, 2.0, 1e-9]), min_size=size, max_size=size).filter(any)
    )
    probs = torch.tensor(masses, dtype=dtype)
    probs /= probs.sum()
    ids = sorted(data.draw(st.sets(st.integers(0, 60), min_size=size, max_size=size)))
    columns = data.draw(st.sampled_from([Columns(61, torch.tensor(ids)), Columns(size)]))
    ids = columns.token_ids(torch.arange(size)).tolist()
    order = plain_order(probs.tolist(), ids, couple_seed=couple_seed, position=position)
    count = data.draw(st.integers(1, 14))
    terms = {"columns": columns, "couple_seed": couple_seed, "position": position}
    assert coupled_order(probs, count=count, **terms) == order[:count]
    assert list(coupled_choices(probs[None], **terms)) == order[:1]


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_tables(spread, dtype):
    """More ids than there are leaders, from all alike to a few that have nearly everything."""
    rows, size = 3, 3000
    generator = torch.Generator().manual_seed(5)
    probs = (spread * torch.randn(rows, size, generator=generator, dtype=dtype)).softmax(dim=1)
    probs[1, ::2] = 0.0
    columns = Columns(3 * size, torch.arange(size) * 3 + 1)
    ids = columns.token_ids(torch.arange(size)).tolist()
    for couple_seed in range(12):
        orders = [
            plain_order(row, ids, couple_seed=couple_seed, position=7 + place)
            for place, row in enumerate(probs.tolist())
        ]
        chosen = coupled_choices(probs, columns=columns, couple_seed=couple_seed, position=7)
        assert list(chosen) == [order[0] for order in orders]
        for count in (1, 5, 300):
            found = coupled_order(
                probs[2], columns=columns, couple_seed=couple_seed, position=9, count=count
            )
            assert found == orders[2][:count]


@given(WORDS, POSITIONS)
def test_few_possible_ids_in_a_large_vocabulary(couple_seed, position):
    probs = torch.zeros(2000)
    probs[[3, 700, 1999]] = torch.tensor([0.2, 0.5, 0.3])
    order = plain_order(probs.tolist(), range(2000), couple_seed=couple_seed, position=position)
    found = coupled_order(
        probs, columns=Columns(2000), couple_seed=couple_seed, position=position, count=9
    )
    assert found == order
    assert len(found) == 3


def test_a_certain_token_is_chosen_whatever_the_noise():
    probs = torch.zeros(1, 500)
    probs[0, 321] = 1.0
    for couple_seed in range(50):
        terms = {"columns": Columns(500), "couple_seed": couple_seed, "position": 0}
        assert list(coupled_choices(probs, **terms)) == [321]


def test_noise_at_its_ends():
    assert gumbel(2**64 - 1) == math.inf
    assert gumbel(0) == pytest.approx(-math.log(54 * math.log(2)))
    assert gumbel((2**53 - 2) << 11) == pytest.approx(-math.log(2.0**-52))
    assert gumbel(1 << 63) == pytest.approx(-math.log(math.log(2)))
