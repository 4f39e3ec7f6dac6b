"""The tensors of the pool: sizes, places, copies."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvLayout, KvPool, LayerShape
from outrider.testing.tiny_families import tiny_family

LAYOUT = KvLayout(
    layers=(LayerShape(2, 3, 5), LayerShape(1, 4, 4)),
    block_size=4,
    dtype=torch.float32,
    device=torch.device("cpu"),
)


def test_bytes_are_counted_over_all_layers() -> None:
    assert LAYOUT.token_bytes == (2 * (3 + 5) + 1 * (4 + 4)) * 4
    assert LAYOUT.block_bytes == 4 * LAYOUT.token_bytes
    assert LAYOUT.widest_token_bytes == 2 * (3 + 5) * 4
    pool = KvPool(LAYOUT, blocks=5)
    held = sum(tensor[:-1].nbytes for tensor in (*pool.keys, *pool.values))
    assert held == 5 * LAYOUT.block_bytes


@pytest.mark.parametrize(("length", "blocks"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_blocks_are_counted_whole(length: int, blocks: int) -> None:
    assert LAYOUT.blocks_for(length) == blocks


def test_as_many_blocks_fit_as_their_bytes_allow() -> None:
    assert LAYOUT.blocks_within(3 * LAYOUT.block_bytes - 1) == 2
    assert LAYOUT.blocks_within(3 * LAYOUT.block_bytes) == 3
    with pytest.raises(ValueError, match="block"):
        KvPool(LAYOUT, blocks=0)


def test_a_copy_is_one_of_all_layers_and_of_nothing_else() -> None:
    pool = KvPool(LAYOUT, blocks=3)
    for tensor in (*pool.keys, *pool.values):
        tensor[:3] = torch.randn_like(tensor[:3])
    before = [tensor.clone() for tensor in (*pool.keys, *pool.values)]
    pool.copy(2, 0)
    for tensor, old in zip((*pool.keys, *pool.values), before, strict=True):
        assert torch.equal(tensor[0], old[2])
        assert torch.equal(tensor[1:], old[1:])


def test_what_is_written_lies_at_its_places() -> None:
    pool = KvPool(LAYOUT, blocks=3)
    keys, values = torch.randn(2, 2, 3), torch.randn(2, 2, 5)
    pool.write(0, torch.tensor([9, 2]), keys, values)
    assert torch.equal(pool.keys[0][2, 1], keys[0])
    assert torch.equal(pool.values[0][0, 2], values[1])
    assert pool.keys[0].flatten(0, 1)[pool.empty_place :].count_nonzero() == 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("llama", LayerShape(2, 8, 8)),
        ("gpt2", LayerShape(4, 8, 8)),
        ("gpt_bigcode", LayerShape(1, 8, 8)),
        ("gemma2", LayerShape(2, 16, 16)),
    ],
)
def test_shapes_are_seen_in_the_model(name: str, shape: LayerShape) -> None:
    layout = probe_kv_layout(tiny_family(name, dtype=torch.bfloat16), block_size=8)
    assert layout.layers == (shape,) * 3
    assert (layout.dtype, layout.block_size) == (torch.bfloat16, 8)
