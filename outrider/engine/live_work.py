"""One job's work while the model thread advances it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from outrider.engine.model import Chunk
from outrider.engine.ticket import Done, RoundTimings, Ticket
from outrider.engine.work import Work

ResultT = TypeVar("ResultT")


class LiveWork(Generic[ResultT]):
    """A generator of chunks, the chunk whose logits it waits for, and its clock."""

    def __init__(self, work: Work[ResultT], ticket: Ticket[ResultT], *, arrived: float) -> None:
        """`arrived`: when the job was submitted, in seconds of time.perf_counter."""
        self.ticket = ticket
        self._work = work
        self._pending: Chunk | None = None
        self._read = 0
        self._arrived = arrived
        self._first_forward: float | None = None
        self._forward_s = 0.0
        self._sampling_s = 0.0
        self._batch_size = 0

    @property
    def pending(self) -> Chunk:
        """The chunk it waits for; a work that has ended has none."""
        if self._pending is None:
            raise RuntimeError("this work waits for nothing")
        return self._pending

    @property
    def left(self) -> int:
        """Tokens of the pending chunk that no forward has read yet."""
        return len(self.pending.token_ids) - self._read

    def begin(self) -> Done[ResultT] | None:
        """Runs the work up to its first chunk; the result if it needs no forward."""
        return self._run(lambda: next(self._work))

    def next_slice(self, longest: int) -> Chunk:
        """What to forward now: the pending chunk or, of a long one, the next part.

        Parts before the last return no rows, so the last is as long as the rows wanted at least.
        """
        chunk = self.pending
        left = self.left
        take = min(longest, left - chunk.rows) if left > max(longest, chunk.rows) else left
        rows = chunk.rows if take == left else 0
        return Chunk(chunk.sequence, chunk.token_ids[self._read : self._read + take], rows)

    def forwarded(
        self, part: Chunk, rows: torch.Tensor, *, began: float, ended: float, batch_size: int
    ) -> Done[ResultT] | None:
        """Takes a forward's rows; runs on once the whole chunk is read. The result at the end."""
        if self._first_forward is None:
            self._first_forward = began
        self._forward_s += ended - began
        self._batch_size = batch_size
        self._read += len(part.token_ids)
        if self._read < len(self.pending.token_ids):
            return None
        return self._run(lambda: self._work.send(rows))

    def failed(self, error: Exception) -> Done[ResultT] | None:
        """Raises `error` where the work waits: it may end with what it has, or let it pass."""
        return self._run(lambda: self._work.throw(error))

    def close(self) -> None:
        """Ends the generator where it stands."""
        self._pending = None
        self._work.close()

    def _run(self, advance: Callable[[], Chunk]) -> Done[ResultT] | None:
        since = time.perf_counter()
        self._pending, self._read = None, 0
        try:
            self._pending = advance()
        except StopIteration as end:
            self._sampling_s += time.perf_counter() - since
            return Done(end.value, self._timings())
        if not 0 <= self._pending.rows <= len(self._pending.token_ids) > 0:
            raise ValueError("a chunk needs a token, and no more rows than tokens")
        self._sampling_s += time.perf_counter() - since
        return None

    def _timings(self) -> RoundTimings:
        queue_end = self._first_forward or time.perf_counter()
        return RoundTimings(
            queue_us=_microseconds(queue_end - self._arrived),
            forward_us=_microseconds(self._forward_s),
            sampling_us=_microseconds(self._sampling_s),
            batch_size=self._batch_size,
        )


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
