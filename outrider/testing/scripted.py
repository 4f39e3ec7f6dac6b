"""Models whose logits are a stated function of the prefix, exact in float64."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

import torch

from outrider.engine.block_pool import BLOCK_SIZE, BlockPool
from outrider.engine.columns import Columns
from outrider.engine.model import Chunk, Sequence
from outrider.engine.step_time import attended_by
from outrider.prefix import TokenPrefix

BYTES_PER_TOKEN = 16
BLOCKS = 4096

Logits = Callable[[SequenceOf[int]], SequenceOf[float] | torch.Tensor]
"""Token ids so far → logits of the next, one for each id."""


class ScriptedModel:
    """A model whose logits are `logits(prefix)`; each forward may take a stated time."""

    weights_bytes = 0

    def __init__(
        self,
        logits: Logits,
        *,
        vocabulary_size: int,
        context_length: int = 4096,
        step_time_s: float = 0.0,
        row_time_s: float = 0.0,
        attended_time_s: float = 0.0,
        subset: torch.Tensor | None = None,
        blocks: int = BLOCKS,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        """A forward over n tokens takes `step_time_s` + n · `row_time_s`, and `attended_time_s`
        for every position that each of them attends to.

        `subset`: int64 [n] rising ids that have a column; None means every id. `blocks`: of the
        pool, which is real though there is nothing in it.
        """
        self.pool = BlockPool(
            blocks, block_size=block_size, block_bytes=block_size * BYTES_PER_TOKEN
        )
        self.vocabulary_size = vocabulary_size
        self.context_length = min(context_length, self.pool.capacity_tokens)
        self.columns = Columns(vocabulary_size, subset)
        self.forwards = 0
        self.tokens = 0
        self._logits = logits
        self._step_time_s = step_time_s
        self._row_time_s = row_time_s
        self._attended_time_s = attended_time_s

    def new_sequence(self, scope: bytes = b"") -> Sequence:
        """Empty state."""
        return Sequence(self.pool, scope=scope)

    def forward(self, chunks: SequenceOf[Chunk]) -> list[torch.Tensor]:
        """Reads the chunks; float64 [rows, columns] for each."""
        since = time.perf_counter()
        count = sum(len(chunk.token_ids) for chunk in chunks)
        attended = sum(
            attended_by(len(chunk.token_ids), behind=len(chunk.sequence.prefix)) for chunk in chunks
        )
        self.forwards += 1
        self.tokens += count
        seconds = self._step_time_s + count * self._row_time_s + attended * self._attended_time_s
        rows = [self._read(chunk) for chunk in chunks]
        # What reading has taken is part of the stated time.
        rest = seconds - (time.perf_counter() - since)
        if rest > 0.0:
            time.sleep(rest)
        return rows

    def _read(self, chunk: Chunk) -> torch.Tensor:
        prefix = chunk.sequence.prefix
        if len(prefix) + len(chunk.token_ids) > self.context_length:
            raise ValueError("beyond the context length")
        before = len(prefix)
        chunk.sequence.reserve(len(chunk.token_ids))
        chunk.sequence.append(chunk.token_ids)
        rows = self._rows(prefix, before + len(chunk.token_ids) - chunk.rows + 1)
        return rows if self.columns.subset is None else rows[:, self.columns.subset]

    def _rows(self, prefix: TokenPrefix, first: int) -> torch.Tensor:
        """What follows the first `first` ids, and each longer prefix up to all of them."""
        lengths = range(first, len(prefix) + 1)
        rows = torch.empty(len(lengths), self.vocabulary_size, dtype=torch.float64)
        for row, length in enumerate(lengths):
            logits = self._logits(prefix.token_ids[:length])
            rows[row] = torch.as_tensor(logits, dtype=torch.float64)
        return rows


class TableModel(ScriptedModel):
    """The law depends on the last two ids, by a table.

    A single id before it counts as a pair with 0.
    """

    def __init__(
        self,
        table: torch.Tensor,
        *,
        context_length: int = 4096,
        step_time_s: float = 0.0,
        blocks: int = BLOCKS,
    ) -> None:
        """`table`: logits, float64 [vocabulary, vocabulary, vocabulary], as of TablePair."""
        self.table = table

        def logits(token_ids: SequenceOf[int]) -> torch.Tensor:
            before = token_ids[-2] if len(token_ids) > 1 else 0
            return table[before, token_ids[-1]]

        super().__init__(
            logits,
            vocabulary_size=table.shape[-1],
            context_length=context_length,
            step_time_s=step_time_s,
            blocks=blocks,
        )


def random_table(*, seed: int, vocabulary_size: int = 8, spread: float = 1.5) -> torch.Tensor:
    """A table for TableModel: independent normal logits of that standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    shape = (vocabulary_size,) * 3
    return spread * torch.randn(shape, generator=generator, dtype=torch.float64)
