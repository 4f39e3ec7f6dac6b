"""Short teachings that choose layers and loss, on disk so that none is done twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.whole_file import write_whole
from outrider.distill.errors import DistillError
from outrider.distill.judging import Judgement, from_dict

Teach = Callable[[Sequence[int], str], Judgement]
"""Teaches a student of these layers with that loss for a short while, and judges it."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a short teaching came to. `layers` empty: those of the draft that was begun from."""

    layers: tuple[int, ...]
    loss: str
    judgement: Judgement


class Trials:
    """Asks for each once."""

    def __init__(self, path: Path, teach: Teach, *, about: str) -> None:
        """`about`: all that the trials depend on; those made from something else are not used."""
        self._path = path
        self._teach = teach
        self._about = about
        self._tried = [
            Tried(tuple(one["layers"]), one["loss"], from_dict(one["judgement"]))
            for one in self._read()
        ]

    @property
    def tried(self) -> Sequence[Tried]:
        """All so far."""
        return self._tried

    def best(self, ways: Sequence[tuple[tuple[int, ...], str]]) -> Tried:
        """The one with the highest score; the first among equals. Raises DistillError."""
        results = [self._result(layers, loss) for layers, loss in ways]
        return max(results, key=lambda one: one.judgement.score)

    def _result(self, layers: tuple[int, ...], loss: str) -> Tried:
        for one in self._tried:
            if one.layers == layers and one.loss == loss:
                return one
        tried = Tried(layers, loss, self._teach(layers, loss))
        self._tried.append(tried)
        self._write()
        return tried

    def _read(self) -> list[dict[str, Any]]:
        if not self._path.is_file():
            return []
        try:
            kept = json.loads(self._path.read_text())
        except (OSError, ValueError) as error:
            raise DistillError(f"{self._path}: cannot be read: {error}") from error
        tried: list[dict[str, Any]] = kept["trials"] if kept["about"] == self._about else []
        return tried

    def _write(self) -> None:
        trials = [
            {"layers": one.layers, "loss": one.loss, "judgement": one.judgement.as_dict()}
            for one in self._tried
        ]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({"about": self._about, "trials": trials}, indent=1))
        except OSError as error:
            raise DistillError(f"{self._path}: cannot be written: {error.strerror}") from error
