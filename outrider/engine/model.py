"""The seam between the engine and a model: chunks and the forward."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Protocol

import torch

from outrider.engine.block_pool import BlockPool
from outrider.engine.columns import Columns
from outrider.engine.paged_sequence import Sequence

__all__ = ["Chunk", "Model", "Sequence"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens of one sequence for the next forward.

    `rows` says for how many of the last tokens the logits are wanted: 0 to len(token_ids).
    `final`: how many of the first tokens will never be rolled back, so that other sequences may
    share their state.
    """

    sequence: Sequence
    token_ids: SequenceOf[int]
    rows: int
    final: int = 0


class Model(Protocol):
    """A loaded model behind the engine."""

    vocabulary_size: int
    """Ids from here on are padding: they have no column."""
    context_length: int
    """Most ids of one sequence; never more than the pool has room for."""
    columns: Columns
    """Which token id each column of the logits stands for."""
    weights_bytes: int
    pool: BlockPool

    def new_sequence(self, scope: bytes = b"") -> Sequence:
        """Empty state, of a cache scope."""
        ...

    def forward(self, chunks: SequenceOf[Chunk]) -> list[torch.Tensor]:
        """Appends each chunk to its sequence and returns its logits.

        One tensor [rows, len(columns)] per chunk, in the model's dtype; a row is what follows
        that token. No two chunks may share a sequence. Raises OutOfBlocks when the pool has no
        room for all of them; nothing has changed then.
        """
        ...
