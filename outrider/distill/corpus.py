"""Lessons on disk: parts that are there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors import torch as safetensors

from outrider.distill.errors import DistillError
from outrider.distill.lesson import Lesson

SUFFIX = ".safetensors"
ABOUT = "about"


class Corpus:
    """A folder of parts, each named and made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str, about: Mapping[str, Any]) -> bool:
        """Whether that part is there. `about`: all that it depends on.

        Raises DistillError when it was made from something else.
        """
        path = self._path(name)
        if not path.is_file():
            return False
        if self._about(path) != _digest(about):
            raise DistillError(
                f"{path}: was written with other options; give another folder or remove this one"
            )
        return True

    def put(self, name: str, lessons: Sequence[Lesson], about: Mapping[str, Any]) -> None:
        """Writes a part. Raises DistillError when it cannot, and leaves nothing then."""
        tensors = {
            "token_ids": torch.tensor(
                [token_id for lesson in lessons for token_id in lesson.token_ids],
                dtype=torch.int32,
            ),
            "lengths": torch.tensor([len(one.token_ids) for one in lessons], dtype=torch.int32),
            "begins": torch.tensor([one.begin for one in lessons], dtype=torch.int32),
            "law_ids": torch.cat([one.law_ids for one in lessons]).cpu(),
            "law_probs": torch.cat([one.law_probs for one in lessons]).cpu(),
        }
        put_tensors(self._path(name), tensors, {ABOUT: _digest(about)})

    def lessons(self, name: str) -> Iterator[Lesson]:
        """The lessons of a part. Raises DistillError."""
        path = self._path(name)
        try:
            tensors = safetensors.load_file(path)
        except Exception as error:
            raise DistillError(f"{path}: cannot be read: {error}") from error
        token_ids = tensors["token_ids"].tolist()
        start = place = 0
        for length, begin in zip(
            tensors["lengths"].tolist(), tensors["begins"].tolist(), strict=True
        ):
            ids, end = token_ids[start : start + length], place + length - begin
            yield Lesson(ids, begin, tensors["law_ids"][place:end], tensors["law_probs"][place:end])
            start, place = start + length, end

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"

    def _about(self, path: Path) -> str:
        try:
            with safe_open(path, framework="pt") as file:
                return str((file.metadata() or {}).get(ABOUT))
        except Exception as error:
            raise DistillError(f"{path}: cannot be read: {error}") from error


def put_tensors(path: Path, tensors: Mapping[str, torch.Tensor], about: Mapping[str, str]) -> None:
    """Puts a file in place once it is complete and on disk. Raises DistillError."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            safetensors.save_file(dict(tensors), part, metadata=dict(about))
            with part.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except Exception as error:
        raise DistillError(f"{path}: cannot be written: {error}") from error


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
