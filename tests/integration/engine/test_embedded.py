"""The embedded pair, from its packages to a target and the draft made for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import load_file
from transformers import AutoTokenizer

from outrider.engine.embedded import LAYERS_FILE, embedded_folder, embedded_target_file
from outrider.engine.loading import LoadedModel, load_model
from outrider.engine.model import Chunk, Model

pytestmark = pytest.mark.embedded

CACHE_DIR = Path(os.environ.get("OUTRIDER_CACHE_DIR", "~/.cache/outrider")).expanduser()
EMBEDDING = "model.embed_tokens.weight"
PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def load(role: str, dtype: str = "float32", name: str = "embedded") -> LoadedModel:
    return load_model(name, role=role, cache_dir=CACHE_DIR, dtype=dtype, device="cpu")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder() -> Path:
    return embedded_folder(CACHE_DIR, print)


@pytest.fixture(scope="module")
def target() -> LoadedModel:
    return load("target")


@pytest.fixture(scope="module")
def draft() -> LoadedModel:
    return load("draft")


def greedy(model: Model, prompt: list[int], count: int) -> list[int]:
    sequence, pending, output = model.new_sequence(), prompt, []
    for _ in range(count):
        rows = model.forward([Chunk(sequence, pending, 1)])[0]
        column = rows[0].argmax().reshape(1)
        pending = model.columns.token_ids(column).tolist()
        output += pending
    return output


def test_the_target_is_the_files_weights(folder: Path) -> None:
    weights = load_file(folder / "target" / "model.safetensors")
    tensors = {tensor.name: tensor for tensor in GGUFReader(embedded_target_file()).tensors}
    for ours, theirs in (
        (EMBEDDING, "token_embd.weight"),
        ("model.layers.7.mlp.up_proj.weight", "blk.7.ffn_up.weight"),
        ("model.norm.weight", "output_norm.weight"),
    ):
        tensor = tensors[theirs]
        expected = dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(weights[ours].numpy(), expected)


def test_the_drafts_embedding_is_the_targets_bit_for_bit(folder: Path) -> None:
    target = load_file(folder / "target" / "model.safetensors")[EMBEDDING]
    draft = load_file(folder / "draft" / "model.safetensors")[EMBEDDING]
    assert draft.dtype == torch.bfloat16
    assert torch.equal(draft.view(torch.int16), target.to(torch.bfloat16).view(torch.int16))


def test_the_drafts_layers_are_the_ones_that_come_with_the_package(folder: Path) -> None:
    ours = load_file(folder / "draft" / "model.safetensors")
    given = load_file(LAYERS_FILE)
    assert ours.keys() - given.keys() == {EMBEDDING}
    assert given.keys() - ours.keys() == {"draft_vocabulary"}
    assert all(torch.equal(ours[name], given[name]) for name in ours.keys() & given.keys())


def test_both_speak_of_the_same_ids(target: LoadedModel, draft: LoadedModel) -> None:
    for loaded in (target, draft):
        assert loaded.model.vocabulary_size == 49_152
        assert loaded.model.context_length == 8192
        assert 2 in loaded.eos_token_ids
    assert target.model.columns.subset is None
    assert len(draft.model.columns) == 8192
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for name in names:
        assert (target.folder / name).read_bytes() == (draft.folder / name).read_bytes()
    assert target.weights_digest != draft.weights_digest


def test_the_target_answers_and_the_draft_agrees_often(
    target: LoadedModel, draft: LoadedModel
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(target.folder)
    prompt = tokenizer(PROMPT, add_special_tokens=False).input_ids
    output = greedy(target.model, prompt, 24)
    assert "Paris" in tokenizer.decode(output)
    whole = [*prompt, *output]
    rows = draft.model.forward([Chunk(draft.model.new_sequence(), whole, len(output) + 1)])[0]
    guesses = draft.model.columns.token_ids(rows[:-1].argmax(dim=1)).tolist()
    agreed = sum(guess == token for guess, token in zip(guesses, output, strict=True))
    assert agreed >= 6, "agreement by chance would be none of 24"


def test_a_second_process_finds_the_folder_whole(folder: Path) -> None:
    """It finds it although the package's own dependencies are not importable."""
    script = (
        "import sys; sys.modules['llm'] = sys.modules['llama_cpp'] = None\n"
        "from pathlib import Path\n"
        "from outrider.engine.embedded import embedded_folder\n"
        "def fail(step): raise SystemExit('assembled again')\n"
        f"print(embedded_folder(Path({str(CACHE_DIR)!r}), fail))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.stdout.strip() == str(folder), found.stderr


@pytest.mark.slow
def test_the_gguf_file_itself_loads_the_same(target: LoadedModel, tmp_path: Path) -> None:
    loaded = load_model(
        str(embedded_target_file()),
        role="target",
        cache_dir=tmp_path,
        dtype="float32",
        device="cpu",
    )
    ids = [1, 520, 198, 1780, 314]
    expected, rows = (
        each.model.forward([Chunk(each.model.new_sequence(), ids, 5)])[0]
        for each in (target, loaded)
    )
    assert torch.equal(rows, expected)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (loaded.folder / name).read_bytes() == (target.folder / name).read_bytes()
    assert loaded.eos_token_ids == target.eos_token_ids
