"""A transformers model behind the seam: rows, padding, subsets and limits."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.block_pool import OutOfBlocks
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.model import Chunk
from outrider.engine.transformers_model import TransformersModel
from outrider.testing.tiny_models import tiny_llama, tiny_model

IDS = [5, 17, 99, 3, 64, 28, 7, 7, 120, 31]


def reference(model: torch.nn.Module, token_ids: list[int]) -> torch.Tensor:
    """transformers' own logits [tokens, vocabulary], without any cache."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([token_ids]), use_cache=False).logits[0]
    return logits


@pytest.mark.parametrize("rows", [0, 1, 4, 10])
def test_rows_are_those_of_the_last_tokens(rows: int) -> None:
    llama, model = tiny_llama(seed=1), TransformersModel(tiny_llama(seed=1))
    sequence = model.new_sequence()
    got = model.forward([Chunk(sequence, IDS, rows)])[0]
    assert got.shape == (rows, 128)
    torch.testing.assert_close(got, reference(llama, IDS)[10 - rows :], rtol=0, atol=1e-12)
    assert list(sequence.prefix.token_ids) == IDS


def test_one_by_one_gives_the_same_rows() -> None:
    llama, model = tiny_llama(seed=1), TransformersModel(tiny_llama(seed=1))
    sequence = model.new_sequence()
    got = torch.cat([model.forward([Chunk(sequence, [each], 1)])[0] for each in IDS])
    torch.testing.assert_close(got, reference(llama, IDS), rtol=0, atol=1e-12)


def test_sequences_of_one_forward_do_not_touch() -> None:
    llama, model = tiny_llama(seed=1), TransformersModel(tiny_llama(seed=1))
    one, two = model.new_sequence(), model.new_sequence()
    first, _ = model.forward([Chunk(one, IDS[:4], 1), Chunk(two, IDS[5:], 1)])
    again, other = model.forward([Chunk(one, IDS[4:5], 1), Chunk(two, IDS[:1], 1)])
    torch.testing.assert_close(first, reference(llama, IDS[:4])[-1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(again, reference(llama, IDS[:5])[-1:], rtol=0, atol=1e-12)
    expected = reference(llama, [*IDS[5:], IDS[0]])[-1:]
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)


def test_padding_ids_have_no_column() -> None:
    llama = tiny_llama(seed=1)
    model = TransformersModel(tiny_llama(seed=1), vocabulary_size=100)
    rows = model.forward([Chunk(model.new_sequence(), IDS[:2], 2)])[0]
    assert rows.shape == (2, 100)
    assert len(model.columns) == model.vocabulary_size == 100
    torch.testing.assert_close(rows, reference(llama, IDS[:2])[:, :100], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_cut_head_gives_the_columns_of_its_ids(rows: int) -> None:
    subset = torch.tensor([0, 3, 7, 64, 127])
    whole, cut = (
        TransformersModel(tiny_llama(seed=1), draft_vocabulary=ids) for ids in (None, subset)
    )
    expected, got = (
        model.forward([Chunk(model.new_sequence(), IDS, rows)])[0] for model in (whole, cut)
    )
    assert got.shape == (rows, 5)
    torch.testing.assert_close(got, expected[:, subset], rtol=0, atol=1e-12)
    assert cut.columns.token_ids(torch.tensor([3])).item() == 64


def test_a_head_with_a_bias_is_not_cut() -> None:
    llama = tiny_llama(seed=1)
    llama.lm_head = torch.nn.Linear(64, 128, bias=True)
    with pytest.raises(ValueError, match="without bias"):
        TransformersModel(llama, draft_vocabulary=torch.tensor([1, 2]))


def test_nothing_is_read_beyond_the_context() -> None:
    model = tiny_model(context_length=8)
    sequence = model.new_sequence()
    model.forward([Chunk(sequence, IDS[:8], 1)])
    with pytest.raises(ValueError, match="context"):
        model.forward([Chunk(sequence, [1], 1)])
    assert len(sequence.prefix) == 8


def test_bytes_of_state_follow_its_blocks() -> None:
    model = tiny_model()
    sequence = model.new_sequence()
    assert sequence.kv_bytes == 0
    model.forward([Chunk(sequence, [*IDS, *IDS], 0)])
    # 2 layers × keys and values × 2 heads × 16 numbers × 8 bytes × 16 tokens in a block.
    block = 2 * 2 * 2 * 16 * 8 * 16
    assert sequence.kv_bytes == 2 * block
    sequence.rollback(4)
    assert sequence.kv_bytes == block
    sequence.rollback(0)
    assert sequence.kv_bytes == 0


def test_a_sequence_of_another_model_is_refused() -> None:
    with pytest.raises(TypeError):
        tiny_model().forward([Chunk(tiny_model().new_sequence(), [1], 1)])


def test_a_sequence_may_stand_once_in_a_forward() -> None:
    model = tiny_model()
    sequence = model.new_sequence()
    with pytest.raises(ValueError, match="two chunks"):
        model.forward([Chunk(sequence, [1], 1), Chunk(sequence, [2], 1)])


def test_nothing_is_read_when_not_all_find_room() -> None:
    layout = probe_kv_layout(tiny_llama(seed=1))
    model = TransformersModel(tiny_llama(seed=1), kv=KvPool(layout, blocks=3))
    assert model.context_length == 48
    one, two = model.new_sequence(), model.new_sequence()
    model.forward([Chunk(one, IDS, 0)])
    with pytest.raises(OutOfBlocks):
        model.forward([Chunk(one, IDS, 0), Chunk(two, [*IDS, *IDS], 0)])
    assert (len(one.prefix), len(two.prefix), model.pool.in_use) == (10, 0, 1)


def test_what_others_left_in_their_blocks_is_not_read() -> None:
    layout = probe_kv_layout(tiny_llama(seed=1))
    llama, model = (
        tiny_llama(seed=1),
        TransformersModel(tiny_llama(seed=1), kv=KvPool(layout, blocks=8)),
    )
    for tensor in (*model.kv.keys, *model.kv.values):
        tensor[: model.pool.blocks] = torch.nan
    one, two = model.new_sequence(), model.new_sequence()
    first, second = model.forward([Chunk(one, IDS[:3], 3), Chunk(two, IDS[:5], 5)])
    torch.testing.assert_close(first, reference(llama, IDS[:3]), rtol=0, atol=1e-12)
    torch.testing.assert_close(second, reference(llama, IDS[:5]), rtol=0, atol=1e-12)


def test_an_empty_chunk_changes_nothing() -> None:
    model = tiny_model()
    one, two = model.new_sequence(), model.new_sequence()
    nothing, row = model.forward([Chunk(one, [], 0), Chunk(two, IDS[:1], 1)])
    assert nothing.shape == (0, 128)
    assert row.shape == (1, 128)
    assert model.forward([Chunk(one, [], 0)])[0].shape == (0, 128)


def test_tiny_models_are_the_same_each_time_and_unlike_each_other() -> None:
    rows = [
        model.forward([Chunk(model.new_sequence(), IDS, 1)])[0]
        for model in (tiny_model(seed=1), tiny_model(seed=1), tiny_model(seed=2))
    ]
    assert torch.equal(rows[0], rows[1])
    assert float((rows[0] - rows[2]).abs().max()) > 0.1
    assert float(rows[0].std()) > 0.5, "its law is far from uniform"
