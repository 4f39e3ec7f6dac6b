"""A transformers model behind the seam: rows, padding, subsets and limits."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from outrider.engine.model import Chunk
from outrider.engine.transformers_model import TransformersModel
from outrider.testing.scripted import ScriptedSequence
from outrider.testing.tiny_models import tiny_llama, tiny_model

IDS = [5, 17, 99, 3, 64, 28, 7, 7, 120, 31]


def reference(model: torch.nn.Module, token_ids: list[int]) -> torch.Tensor:
    """transformers' own logits [tokens, vocabulary], without any cache."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([token_ids]), use_cache=False).logits[0]
    return logits


@pytest.mark.parametrize("rows", [0, 1, 4, 10])
def test_rows_are_those_of_the_last_tokens(rows: int) -> None:
    llama = tiny_llama(seed=1)
    model = TransformersModel(llama)
    sequence = model.new_sequence()
    got = model.forward([Chunk(sequence, IDS, rows)])[0]
    assert got.shape == (rows, 128)
    torch.testing.assert_close(got, reference(llama, IDS)[10 - rows :], rtol=0, atol=1e-12)
    assert list(sequence.prefix.token_ids) == IDS


def test_one_by_one_gives_the_same_rows() -> None:
    llama = tiny_llama(seed=1)
    model = TransformersModel(llama)
    sequence = model.new_sequence()
    got = torch.cat([model.forward([Chunk(sequence, [each], 1)])[0] for each in IDS])
    torch.testing.assert_close(got, reference(llama, IDS), rtol=0, atol=1e-12)


def test_sequences_of_one_forward_do_not_touch() -> None:
    llama = tiny_llama(seed=1)
    model = TransformersModel(llama)
    one, two = model.new_sequence(), model.new_sequence()
    first, _ = model.forward([Chunk(one, IDS[:4], 1), Chunk(two, IDS[5:], 1)])
    again, other = model.forward([Chunk(one, IDS[4:5], 1), Chunk(two, IDS[:1], 1)])
    torch.testing.assert_close(first, reference(llama, IDS[:4])[-1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(again, reference(llama, IDS[:5])[-1:], rtol=0, atol=1e-12)
    expected = reference(llama, [*IDS[5:], IDS[0]])[-1:]
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model_type", ["gpt2", "qwen2", "gpt_neox", "phi3", "opt"])
def test_other_architectures_have_the_same_seam(model_type: str) -> None:
    torch.manual_seed(5)
    config = AutoConfig.for_model(
        model_type,
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=None,
        **({"word_embed_proj_dim": 32, "ffn_dim": 48} if model_type == "opt" else {}),
    )
    loaded = AutoModelForCausalLM.from_config(config).double().eval()
    model = TransformersModel(loaded)
    sequence = model.new_sequence()
    expected = reference(loaded, IDS)
    got = model.forward([Chunk(sequence, IDS[:6], 2)])[0]
    torch.testing.assert_close(got, expected[4:6], rtol=0, atol=1e-9)
    model.forward([Chunk(sequence, [1, 2, 3], 0)])
    sequence.rollback(6)
    got = model.forward([Chunk(sequence, IDS[6:], 4)])[0]
    torch.testing.assert_close(got, expected[6:], rtol=0, atol=1e-9)


def test_padding_ids_have_no_column() -> None:
    llama = tiny_llama(seed=1)
    model = TransformersModel(llama, vocabulary_size=100)
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


def test_bytes_of_state_follow_its_length() -> None:
    model = tiny_model()
    sequence = model.new_sequence()
    assert sequence.kv_bytes == 0
    model.forward([Chunk(sequence, IDS, 0)])
    # 2 layers × keys and values × 2 heads × 16 numbers × 8 bytes.
    assert sequence.kv_bytes == 10 * 2 * 2 * 2 * 16 * 8
    sequence.rollback(4)
    assert sequence.kv_bytes == 4 * 2 * 2 * 2 * 16 * 8
    sequence.rollback(0)
    assert sequence.kv_bytes == 0


def test_a_sequence_of_another_model_is_refused() -> None:
    with pytest.raises(TypeError):
        tiny_model().forward([Chunk(ScriptedSequence(), [1], 1)])


def test_tiny_models_are_the_same_each_time_and_unlike_each_other() -> None:
    rows = [
        model.forward([Chunk(model.new_sequence(), IDS, 1)])[0]
        for model in (tiny_model(seed=1), tiny_model(seed=1), tiny_model(seed=2))
    ]
    assert torch.equal(rows[0], rows[1])
    assert float((rows[0] - rows[2]).abs().max()) > 0.1
    assert float(rows[0].std()) > 0.5, "its law is far from uniform"
