"""The metadata of a packed forward: order, places, groups and masks."""

from __future__ import annotations

import pytest
import torch
from transformers.masking_utils import (
    causal_mask_function,
    chunked_causal_mask_function,
    sliding_window_causal_mask_function,
)

from outrider.engine.attention_group import GROUP_BYTES, AttentionGroup, group_parts
from outrider.engine.kv_pool import KvLayout, KvPool, LayerShape
from outrider.engine.mask_rule import MaskRule, packed_mask
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.packed_part import Part

POOL = KvPool(
    KvLayout((LayerShape(2, 3, 3),), 4, torch.float32, torch.device("cpu")),
    blocks=20,
)
CAUSAL = MaskRule(causal_mask_function, None)


def part(count: int, start: int, rows: int = 0) -> Part:
    """Distinct ids; a table of blocks that go down."""
    blocks = POOL.layout.blocks_for(start + count)
    return Part(list(range(start, start + count)), start, list(range(19, 19 - blocks, -1)), rows)


def test_wanted_rows_come_in_the_order_of_the_parts() -> None:
    parts = [part(9, 0, rows=2), part(1, 5, rows=1), part(3, 2, rows=0), part(1, 7, rows=1)]
    batch = PackedBatch.pack(parts, POOL)
    assert batch.token_ids[batch.wanted].tolist() == [7, 8, 5, 7]
    assert torch.equal(batch.token_ids, batch.positions), "that is how these parts are made"
    tables = [each.table for group in batch.parts for each in group for _ in each.token_ids]
    assert batch.places.tolist() == [
        table[position // 4] * 4 + position % 4
        for table, position in zip(tables, batch.positions.tolist(), strict=True)
    ]
    assert sum(group.tokens for group in batch.groups) == len(batch.token_ids)


def test_no_rows_wanted_is_no_index() -> None:
    batch = PackedBatch.pack([part(2, 0)], POOL)
    assert (batch.wanted.dtype, batch.wanted.shape) == (torch.int64, (0,))


@pytest.mark.parametrize(
    ("shapes", "groups"),
    [
        ([(5, 200)] * 8, [8]),  # What verifies together is attended together …
        ([(5, 190), (4, 205), (5, 199), (6, 210)], [4]),
        ([(1, 100), (512, 0)], [1, 1]),  # … but a decoding row does not wait for a prompt,
        ([(5, 50), (5, 5000)], [1, 1]),  # a short context not for a long one,
        ([(5, 1500)] * 16, [1] * 16),  # and nothing is grouped beyond the cache.
    ],
)
def test_like_is_grouped_with_like(shapes: list[tuple[int, int]], groups: list[int]) -> None:
    parts = [Part([0] * count, start, [], 0) for count, start in shapes]
    found = group_parts(parts, token_bytes=768)
    assert sorted(index for group in found for index in group) == list(range(len(shapes)))
    assert sorted(map(len, found)) == sorted(groups)
    for group in found:
        longest = max(parts[index].length for index in group)
        assert len(group) == 1 or len(group) * longest * 768 <= GROUP_BYTES


def test_padding_is_never_seen_and_never_returned() -> None:
    parts = [part(2, 4), part(3, 1)]
    group = AttentionGroup.of(parts, POOL)
    assert (group.sequences, group.rows, group.length, group.tokens) == (2, 3, 6, 5)
    assert group.padded is not None
    assert group.real is not None
    assert group.padded.tolist() == [0, 1, 1, 2, 3, 4]
    assert group.real.tolist() == [0, 1, 3, 4, 5]
    assert group.positions.tolist() == [[4, 5, 5], [1, 2, 3]]
    assert group.index.tolist()[6:] == [76, 77, 78, 79, POOL.empty_place, POOL.empty_place]
    mask = group.mask(CAUSAL, fold=1, dtype=torch.float32)
    assert mask is not None
    assert (mask == 0).squeeze(1).sum(-1).tolist() == [[5, 6, 6], [2, 3, 4]]
    assert mask[mask != 0].isneginf().all()


def test_a_group_without_padding_needs_no_index() -> None:
    group = AttentionGroup.of([part(2, 4), part(2, 5)], POOL)
    assert group.padded is None
    assert group.real is None


def test_a_folded_mask_repeats_its_rows_for_each_query_head() -> None:
    group = AttentionGroup.of([part(2, 4), part(3, 1)], POOL)
    once = group.mask(CAUSAL, fold=1, dtype=torch.float64)
    folded = group.mask(CAUSAL, fold=3, dtype=torch.float64)
    assert once is not None
    assert folded is not None
    assert torch.equal(folded, once.repeat(1, 1, 3, 1))
    assert group.mask(CAUSAL, fold=3, dtype=torch.float64) is folded, "made once for all layers"


def test_one_row_of_one_sequence_sees_everything() -> None:
    group = AttentionGroup.of([part(1, 9)], POOL)
    assert group.mask(CAUSAL, fold=3, dtype=torch.float32) is None
    windowed = MaskRule(sliding_window_causal_mask_function(4), 4)
    mask = group.mask(windowed, fold=1, dtype=torch.float32)
    assert mask is not None
    assert (mask == 0).flatten().tolist() == [False] * 6 + [True] * 4


def test_chunks_are_rules_too() -> None:
    rule = MaskRule(chunked_causal_mask_function(4, torch.zeros(1, dtype=torch.long)), 4)
    mask = AttentionGroup.of([part(3, 3)], POOL).mask(rule, fold=1, dtype=torch.float32)
    assert mask is not None
    assert (mask == 0).int().squeeze().tolist() == [
        [1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]


def test_keys_are_gathered_by_table() -> None:
    pool = torch.arange(21 * 4 * 2 * 3.0).view(21, 4, 2, 3)
    flat = pool.flatten(0, 1)
    alone = AttentionGroup.of([part(1, 5)], POOL).gather(pool)
    assert torch.equal(alone[0], flat[[76, 77, 78, 79, 72, 73]])
    both = AttentionGroup.of([part(1, 1), part(1, 5)], POOL).gather(pool)
    assert torch.equal(both[1], alone[0])
    assert torch.equal(both[0], flat[[76, 77, *[POOL.empty_place] * 4]])


@pytest.mark.parametrize("changes", [{"attention_mask": torch.ones(1, 3)}, {"use_vmap": True}])
def test_a_mask_that_is_no_rule_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="rule"):
        packed_mask(1, 3, 3, mask_function=causal_mask_function, **changes)  # type: ignore[arg-type]
