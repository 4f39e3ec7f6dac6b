"""The seam between the engine and a model: sequences, chunks and the forward."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Protocol

import torch

from outrider.engine.columns import Columns
from outrider.prefix import TokenPrefix


class Sequence(Protocol):
    """The KV state of one token sequence in one model. Used on the model thread only."""

    @property
    def prefix(self) -> TokenPrefix:
        """The ids that have KV state."""
        ...

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV state held."""
        ...

    def rollback(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens of one sequence for the next forward.

    `rows` says for how many of the last tokens the logits are wanted: 0 to len(token_ids).
    """

    sequence: Sequence
    token_ids: SequenceOf[int]
    rows: int


class Model(Protocol):
    """A loaded model behind the engine."""

    vocabulary_size: int
    """Ids from here on are padding: they have no column."""
    context_length: int
    columns: Columns
    """Which token id each column of the logits stands for."""
    weights_bytes: int

    def new_sequence(self) -> Sequence:
        """Empty state."""
        ...

    def forward(self, chunks: SequenceOf[Chunk]) -> list[torch.Tensor]:
        """Appends each chunk to its sequence and returns its logits.

        One tensor [rows, len(columns)] per chunk, in the model's dtype; a row is what follows
        that token. No two chunks may share a sequence.
        """
        ...
