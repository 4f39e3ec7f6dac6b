"""The part of the vocabulary that a draft proposes from, where its folder names one."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import torch as safetensors

from outrider.engine.load_error import ModelLoadError

FILE = "draft_vocabulary.safetensors"
NAME = "draft_vocabulary"


def save_draft_vocabulary(token_ids: torch.Tensor, folder: Path) -> None:
    """Writes rising token ids [n] into a model folder."""
    safetensors.save_file({NAME: token_ids.to(torch.int32)}, folder / FILE)


def read_draft_vocabulary(folder: Path, *, vocabulary_size: int) -> torch.Tensor | None:
    """The ids, int64 [n], rising; None where the folder names none. Raises ModelLoadError."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        token_ids: torch.Tensor = safetensors.load_file(path)[NAME].to(torch.int64)
    except Exception as error:
        raise ModelLoadError(f"{path}: cannot be read: {error}") from error
    rising = token_ids.dim() == 1 and token_ids.numel() > 0 and bool((token_ids.diff() > 0).all())
    if not rising or int(token_ids[0]) < 0 or int(token_ids[-1]) >= vocabulary_size:
        raise ModelLoadError(f"{path}: must be rising token ids below {vocabulary_size}")
    return token_ids
