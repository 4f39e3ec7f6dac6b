"""Every family: packed with others over paged state, each row is what the model gives alone."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.attention_check import check_attention
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.layer_check import check_layers
from outrider.engine.model import Chunk
from outrider.testing.tiny_families import (
    CONTEXT,
    FAMILIES,
    VOCABULARY,
    alone,
    tiny_family,
    tiny_family_pair,
)

STEPS = ((4, 17, 9), (5, 5, 5), (1, 1, 1), (3, 70, 2), (1, 2, 1))
"""New tokens of three sequences, forward by forward: beyond each window, rope edge and block."""


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_is_as_alone(name: str) -> None:
    model, reference = tiny_family_pair(name)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (3, CONTEXT), generator=generator).tolist()
    sequences = [model.new_sequence() for _ in ids]
    lengths = [0, 0, 0]
    expected = [alone(reference, each) for each in ids]
    for counts in STEPS:
        chunks = [
            Chunk(sequence, each[length : length + count], count)
            for sequence, each, length, count in zip(sequences, ids, lengths, counts, strict=True)
        ]
        for index, rows in enumerate(model.forward(chunks)):
            first, lengths[index] = lengths[index], lengths[index] + counts[index]
            whole = expected[index][first : lengths[index]]
            assert float(whole.std()) > 0.05, "its law is far from uniform"
            torch.testing.assert_close(rows, whole, rtol=0, atol=FAMILIES[name].tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_checks_let_it_in(name: str, dtype: torch.dtype) -> None:
    loaded = tiny_family(name, dtype=dtype)
    check_layers(loaded, context_length=CONTEXT)
    check_attention(loaded, layout=probe_kv_layout(loaded), context_length=CONTEXT)
