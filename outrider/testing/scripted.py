"""Models whose logits are a stated function of the prefix, exact in float64."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.model import Chunk
from outrider.prefix import TokenPrefix

BYTES_PER_TOKEN = 16

Logits = Callable[[Sequence[int]], Sequence[float] | torch.Tensor]
"""Token ids so far → logits of the next, one for each id."""


class ScriptedSequence:
    """The ids read so far; that is all the state a scripted model has."""

    def __init__(self) -> None:
        self.prefix = TokenPrefix()

    @property
    def kv_bytes(self) -> int:
        """A made-up size."""
        return BYTES_PER_TOKEN * len(self.prefix)

    def rollback(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        self.prefix.truncate(length)


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
        subset: torch.Tensor | None = None,
    ) -> None:
        """A forward over n tokens takes `step_time_s` + n · `row_time_s`.

        `subset`: int64 [n] rising ids that have a column; None means every id.
        """
        self.vocabulary_size = vocabulary_size
        self.context_length = context_length
        self.columns = Columns(vocabulary_size, subset)
        self.forwards = 0
        self.tokens = 0
        self._logits = logits
        self._step_time_s = step_time_s
        self._row_time_s = row_time_s

    def new_sequence(self) -> ScriptedSequence:
        """Empty state."""
        return ScriptedSequence()

    def forward(self, chunks: Sequence[Chunk]) -> list[torch.Tensor]:
        """Reads the chunks; float64 [rows, columns] for each."""
        count = sum(len(chunk.token_ids) for chunk in chunks)
        self.forwards += 1
        self.tokens += count
        seconds = self._step_time_s + count * self._row_time_s
        if seconds > 0.0:
            time.sleep(seconds)
        return [self._read(chunk) for chunk in chunks]

    def _read(self, chunk: Chunk) -> torch.Tensor:
        prefix = chunk.sequence.prefix
        if len(prefix) + len(chunk.token_ids) > self.context_length:
            raise ValueError("beyond the context length")
        before = len(prefix)
        prefix.extend(chunk.token_ids)
        rows = torch.empty(chunk.rows, self.vocabulary_size, dtype=torch.float64)
        first = before + len(chunk.token_ids) - chunk.rows
        for row in range(chunk.rows):
            logits = self._logits(prefix.token_ids[: first + row + 1])
            rows[row] = torch.as_tensor(logits, dtype=torch.float64)
        return rows if self.columns.subset is None else rows[:, self.columns.subset]


class TableModel(ScriptedModel):
    """The law depends on the last two ids, by a table.

    A single id before it counts as a pair with 0.
    """

    def __init__(
        self, table: torch.Tensor, *, context_length: int = 4096, step_time_s: float = 0.0
    ) -> None:
        """`table`: logits, float64 [vocabulary, vocabulary, vocabulary], as of TablePair."""
        self.table = table

        def logits(token_ids: Sequence[int]) -> torch.Tensor:
            before = token_ids[-2] if len(token_ids) > 1 else 0
            return table[before, token_ids[-1]]

        super().__init__(
            logits,
            vocabulary_size=table.shape[-1],
            context_length=context_length,
            step_time_s=step_time_s,
        )


def random_table(*, seed: int, vocabulary_size: int = 8, spread: float = 1.5) -> torch.Tensor:
    """A table for TableModel: independent normal logits of that standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    shape = (vocabulary_size,) * 3
    return spread * torch.randn(shape, generator=generator, dtype=torch.float64)
