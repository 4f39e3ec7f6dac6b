"""The target that the engine's rows are about: which model, in which numbers, on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from outrider.engine.model_files import find_model_files

CACHE = Path("~/.cache/outrider").expanduser()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One target. `prefix` begins the names of its rows."""

    model: str = "embedded"
    words: str = "embedded target"
    dtype: str = "bfloat16"
    device: str = "cpu"
    threads: int = 1
    prefix: str = ""

    def row(self, name: str) -> str:
        """The name of a row about it."""
        return self.prefix + name

    @property
    def note(self) -> str:
        """For the note of a row."""
        place = f"{self.threads} thread" if self.device == "cpu" else self.device
        return f"{self.words}, {self.dtype}, {place}"

    @property
    def flags(self) -> Sequence[str]:
        """Flags of `outrider serve target`."""
        return (
            f"--model={self.model}",
            f"--dtype={self.dtype}",
            f"--device={self.device}",
            f"--threads={self.threads}",
        )

    @property
    def numbers(self) -> torch.dtype:
        """`dtype` as torch's."""
        numbers: torch.dtype = getattr(torch, self.dtype)
        return numbers

    @property
    def folder(self) -> Path:
        """Its configuration, weights and tokenizer."""
        files = find_model_files(
            self.model, role="target", cache_dir=CACHE, progress=lambda step: None
        )
        return files.folder

    def of_dtype(self, dtype: str) -> Subject:
        """The same model in other numbers."""
        return replace(self, dtype=dtype)


EMBEDDED = Subject()
