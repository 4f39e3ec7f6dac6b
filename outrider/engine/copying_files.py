"""What a draft that copies needs of a model: its configuration and its tokenizer, no weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from outrider.engine.context_length import context_length_of
from outrider.engine.copying_model import CopyingModel
from outrider.engine.load_error import ModelLoadError
from outrider.engine.model_files import find_text_files
from outrider.engine.special_ids import tokenizer_size


@dataclass(frozen=True, slots=True)
class CopyingFiles:
    """`folder` has the tokenizer's files."""

    model: CopyingModel
    folder: Path


def load_copying_model(
    name: str, *, cache_dir: Path, context_length: int = 0, block_size: int
) -> CopyingFiles:
    """For the ids of `embedded`, a folder, a .gguf file or a hub id. Raises ModelLoadError.

    `context_length`: 0 means the model's.
    """
    files = find_text_files(name, cache_dir=cache_dir.expanduser())
    place: dict[str, Any] = {}
    if files.gguf is not None:
        place["gguf_file"] = files.gguf.name
    folder = files.folder if files.gguf is None else files.gguf.parent
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, **place
        )
        rows = int(config.get_text_config(decoder=True).vocab_size)
    except Exception as error:
        raise ModelLoadError(f"{folder}: {type(error).__name__}: {error}") from error
    model = CopyingModel(
        vocabulary_size=min(tokenizer_size(files.folder) or rows, rows),
        context_length=context_length_of(config, wanted=context_length, name=name),
        block_size=block_size,
    )
    return CopyingFiles(model, files.folder)
