"""Scripted models: their logits are the stated function of the prefix, whatever was rolled back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from outrider.engine.model import Chunk
from outrider.testing.scripted import ScriptedModel, TableModel, random_table


def length_and_last(token_ids: Sequence[int]) -> list[float]:
    return [float(len(token_ids)), float(token_ids[-1]), 0.0, 0.0]


def test_each_row_sees_its_own_prefix() -> None:
    model = ScriptedModel(length_and_last, vocabulary_size=4)
    sequence = model.new_sequence()
    model.forward([Chunk(sequence, [3, 1], 0)])
    rows = model.forward([Chunk(sequence, [2, 0, 1], 2)])[0]
    assert rows.tolist() == [[4.0, 0.0, 0.0, 0.0], [5.0, 1.0, 0.0, 0.0]]
    assert rows.dtype == torch.float64
    sequence.rollback(1)
    assert model.forward([Chunk(sequence, [2], 1)])[0].tolist() == [[2.0, 2.0, 0.0, 0.0]]
    assert (model.forwards, model.tokens) == (3, 6)


def test_a_subset_has_its_columns_only() -> None:
    model = ScriptedModel(length_and_last, vocabulary_size=4, subset=torch.tensor([1, 3]))
    assert model.forward([Chunk(model.new_sequence(), [3], 1)])[0].tolist() == [[3.0, 0.0]]


def test_the_context_is_limited() -> None:
    model = ScriptedModel(length_and_last, vocabulary_size=4, context_length=2)
    with pytest.raises(ValueError, match="context"):
        model.forward([Chunk(model.new_sequence(), [1, 2, 3], 1)])


def test_a_table_looks_at_the_last_two() -> None:
    table = random_table(seed=4)
    model = TableModel(table)
    rows = model.forward([Chunk(model.new_sequence(), [5, 2, 7], 3)])[0]
    torch.testing.assert_close(rows, torch.stack([table[0, 5], table[5, 2], table[2, 7]]))
    assert torch.equal(table, random_table(seed=4))
    assert not torch.equal(table, random_table(seed=5))
