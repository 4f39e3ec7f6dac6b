"""A model without weights, for drafts that copy: it keeps account of ids and gives no logits."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from outrider.engine.block_pool import BLOCK_SIZE, BlockPool
from outrider.engine.columns import Columns
from outrider.engine.model import Chunk, Sequence

MOST_TOKENS = 1 << 20
"""Ids of all sequences together, or one full context where that is more."""


class CopyingModel:
    """Has the engine's interface, so that handles, rounds and rollbacks are those of any model."""

    weights_bytes = 0

    def __init__(
        self, *, vocabulary_size: int, context_length: int, block_size: int = BLOCK_SIZE
    ) -> None:
        blocks = -(-max(context_length, MOST_TOKENS) // block_size)
        self.pool = BlockPool(blocks, block_size=block_size)
        self.vocabulary_size = vocabulary_size
        self.context_length = context_length
        self.columns = Columns(vocabulary_size)

    def new_sequence(self, scope: bytes = b"") -> Sequence:
        """Empty state, of a cache scope."""
        return Sequence(self.pool, scope=scope)

    def forward(self, chunks: SequenceOf[Chunk]) -> list[torch.Tensor]:
        """Appends each chunk to its sequence; no rows. Raises ValueError when some are wanted."""
        if any(chunk.rows for chunk in chunks):
            raise ValueError("a model without weights has no logits")
        for chunk in chunks:
            chunk.sequence.reserve(len(chunk.token_ids))
        for chunk in chunks:
            chunk.sequence.append(chunk.token_ids)
        return [torch.empty(0, len(self.columns))] * len(chunks)
