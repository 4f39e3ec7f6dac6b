"""The model without weights: what it keeps, what it needs to load, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from outrider.drafter import Drafter
from outrider.engine.block_pool import OutOfBlocks
from outrider.engine.copying_files import CopyingFiles, load_copying_model
from outrider.engine.copying_model import CopyingModel
from outrider.engine.load_error import ModelLoadError
from outrider.engine.model import Chunk
from outrider.settings import DraftSettings
from outrider.testing.tiny_models import save_tiny
from outrider.testing.tiny_tokenizer import tiny_tokenizer
from outrider.worker.model_loading import load_worker_model, settle_model

TOKENS = tiny_tokenizer().get_vocab_size()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder without its weights."""
    folder = save_tiny(tmp_path / "model", padding=3)
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    return folder


def load(name: str | Path, tmp_path: Path, **options: Any) -> CopyingFiles:
    return load_copying_model(
        str(name), **{"cache_dir": tmp_path / "cache", "block_size": 16, **options}
    )


def test_it_keeps_account_of_ids() -> None:
    model = CopyingModel(vocabulary_size=10, context_length=40)
    sequence, other = model.new_sequence(), model.new_sequence(b"a scope")
    rows = model.forward([Chunk(sequence, [1, 2, 3], rows=0), Chunk(other, [4], rows=0)])
    assert [list(each.shape) for each in rows] == [[0, 10], [0, 10]]
    assert list(sequence.prefix.token_ids) == [1, 2, 3]
    assert list(other.prefix.token_ids) == [4]
    sequence.rollback(1)
    model.forward([Chunk(sequence, [9], rows=0)])
    assert list(sequence.prefix.token_ids) == [1, 9]
    assert other.scope == b"a scope"


def test_it_has_no_logits() -> None:
    model = CopyingModel(vocabulary_size=10, context_length=40)
    with pytest.raises(ValueError, match="no logits"):
        model.forward([Chunk(model.new_sequence(), [1], rows=1)])


def test_it_has_room_for_a_full_context_and_no_more_than_it_says() -> None:
    model = CopyingModel(vocabulary_size=10, context_length=3_000_000)
    assert model.pool.capacity_tokens >= 3_000_000
    small = CopyingModel(vocabulary_size=10, context_length=8)
    sequence = small.new_sequence()
    with pytest.raises(OutOfBlocks):
        sequence.reserve(small.pool.capacity_tokens + 1)


def test_a_folder_needs_no_weights(folder: Path, tmp_path: Path) -> None:
    loaded = load(folder, tmp_path)
    assert loaded.folder == folder
    assert loaded.model.vocabulary_size == TOKENS, "padding rows are no ids"
    assert loaded.model.context_length == 512
    assert load(folder, tmp_path, context_length=100).model.context_length == 100


@pytest.mark.slow
@pytest.mark.embedded
def test_the_embedded_models_text_is_that_of_its_target(tmp_path: Path) -> None:
    loaded = load("embedded", tmp_path)
    assert (loaded.model.vocabulary_size, loaded.model.context_length) == (49152, 8192)
    assert (loaded.folder / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: shutil.rmtree(folder), "no such folder"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "config.json").write_text("{}"), "model_type"),
    ],
    ids=["no folder", "no configuration", "not JSON", "no model"],
)
def test_what_cannot_be_loaded_is_named(
    folder: Path, tmp_path: Path, change: Any, reason: str
) -> None:
    change(folder)
    with pytest.raises(ModelLoadError, match=reason) as raised:
        load(folder, tmp_path)
    assert str(folder) in str(raised.value)


def test_a_context_beyond_the_models_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="beyond the model's 512"):
        load(folder, tmp_path, context_length=513)


@pytest.mark.parametrize("drafter", [Drafter.NGRAM, Drafter.SUFFIX])
def test_a_worker_that_only_copies_loads_no_weights(
    folder: Path, tmp_path: Path, drafter: Drafter
) -> None:
    settings = DraftSettings(
        model=str(folder), drafter=drafter, cache_dir=tmp_path / "cache", compile=True
    )
    model, description = load_worker_model(settings, "draft")
    settle_model(settings, model)
    assert isinstance(model, CopyingModel)
    assert description.weights_bytes == 0
    assert description.vocabulary_size == TOKENS
    assert description.tokenizer.digest
    assert json.loads(description.tokenizer.files["tokenizer.json"])


@pytest.mark.parametrize("drafter", [Drafter.MODEL, Drafter.MIXED])
def test_one_that_draws_needs_them(folder: Path, tmp_path: Path, drafter: Drafter) -> None:
    settings = DraftSettings(model=str(folder), drafter=drafter, cache_dir=tmp_path / "cache")
    with pytest.raises(ModelLoadError, match="no weights"):
        load_worker_model(settings, "draft")
