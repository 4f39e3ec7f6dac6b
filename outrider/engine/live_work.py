"""One job's work while the model thread advances it."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch

from outrider.engine.model import Chunk, Sequence
from outrider.engine.schedule import SMALL_TOKENS, Pending
from outrider.engine.ticket import AnswersTo, Done, RoundTimings
from outrider.engine.work import Answer, Rider, Together, Work

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Submission(Generic[JobT, ResultT]):
    """A job as it came. `stream`: its generation, empty for none. `arrived`: perf_counter."""

    job: JobT
    ticket: AnswersTo[ResultT]
    stream: str
    arrived: float


class LiveWork(Generic[ResultT]):
    """A generator of chunks, the chunk whose logits it waits for, and its clock.

    What it answers is kept in `answers` until somebody collects it.
    """

    def __init__(
        self,
        start: Callable[[JobT], Work[ResultT]],
        submission: Submission[JobT, ResultT],
        *,
        served: int = 0,
    ) -> None:
        """`served`: the number of the forward that its stream had last."""
        self.ticket = submission.ticket
        self.stream = submission.stream
        self.arrived = submission.arrived
        self.served = served
        self.begun = False
        """Its first forward has begun, or it needed none."""
        self.answers: list[Done[ResultT]] = []
        self._start: Callable[[], Work[ResultT]] = partial(start, submission.job)
        self._work: Work[ResultT] | None = None
        self._pending: Chunk | None = None
        self.riders: SequenceOf[Rider] = ()
        """What may share the forward that reads the last of the pending chunk."""
        self._read = 0
        self._sought: list[bytes] | None = None
        self._final_length = 0
        self._waits_since = submission.arrived
        self._waits = True
        self._queue_s = 0.0
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
    def sequence(self) -> Sequence:
        """What the pending chunk is appended to."""
        return self.pending.sequence

    @property
    def left(self) -> int:
        """Tokens of the pending chunk that have no state yet."""
        return len(self.pending.token_ids) - self._read

    @property
    def to_come(self) -> Pending:
        """What the schedule has to know."""
        left = self.left
        return Pending(
            left,
            self.pending.rows,
            self.arrived,
            behind=len(self.sequence.prefix),
            served=self.served,
            next_block=self._next_block() if left > SMALL_TOKENS else None,
        )

    @property
    def adoptable(self) -> list[int]:
        """The next ids whose state may come from elsewhere: final, and no logits wanted."""
        chunk = self.pending
        end = min(chunk.final, len(chunk.token_ids) - max(1, chunk.rows))
        return list(chunk.token_ids[self._read : end]) if end > self._read else []

    @property
    def sought(self) -> SequenceOf[bytes]:
        """The keys of the blocks it may adopt. Kept while it waits: a long prompt has many."""
        if self._sought is None:
            self._sought = self.sequence.keys_of(self.adoptable)
        return self._sought

    def begin(self) -> None:
        """Runs the work up to its first chunk, or to its end if it needs no forward."""
        self._work = self._start()
        self._run(self._next)

    def adopt(self) -> None:
        """Takes over what other sequences have read already."""
        self._sought = None
        if token_ids := self.adoptable:
            self._read += self.sequence.adopt(token_ids)

    def slice(self, tokens: int) -> Chunk:
        """The next `tokens` tokens of the pending chunk; a part of it ends at a block border.

        Parts before the last return no rows.
        """
        chunk, left = self.pending, self.left
        if tokens < left:
            over = (len(self.sequence.prefix) + tokens) % self.sequence.pool.block_size
            tokens -= over if over < tokens else 0
        token_ids = chunk.token_ids[self._read : self._read + tokens]
        final = max(0, min(tokens, chunk.final - self._read))
        return Chunk(self.sequence, token_ids, chunk.rows if tokens == left else 0, final)

    def note_forward(self, *, began: float, ended: float, batch_size: int) -> None:
        """A forward has read a part of it."""
        if self._waits:
            self._waits = False
            self._queue_s += began - self._waits_since
        self._forward_s += ended - began
        self._batch_size = batch_size

    def forwarded(self, part: Chunk, rows: torch.Tensor) -> None:
        """Takes a forward's rows; runs on once the whole chunk is read."""
        self._read += len(part.token_ids)
        self.sequence.seal(self._final_length)
        if self.left == 0:
            self._run(partial(self._generator.send, rows))

    def replay(self, token_ids: SequenceOf[int]) -> None:
        """Its sequence has lost its state, these ids: they are read again before what is left."""
        chunk = self.pending
        left = chunk.token_ids[self._read :]
        self._sought = None
        if not self._waits:
            self._waits, self._waits_since = True, time.perf_counter()
        self._pending, self._read = (
            Chunk(chunk.sequence, [*token_ids, *left], chunk.rows, self._final_length),
            0,
        )

    def failed(self, error: Exception) -> None:
        """Raises `error` where the work waits: it may end with what it has, or let it pass."""
        self._run(partial(self._generator.throw, error))

    def close(self) -> None:
        """Ends the generator where it stands, and gives back what was reserved for it."""
        pending, self._pending = self._pending, None
        try:
            if self._work is not None:
                self._work.close()
        finally:
            if pending is not None and not pending.sequence.parked:
                pending.sequence.rollback(len(pending.sequence.prefix))

    @property
    def _generator(self) -> Work[ResultT]:
        if self._work is None:
            raise RuntimeError("this work has not been started")
        return self._work

    def _next(self) -> Chunk | Together | Answer[ResultT]:
        return next(self._generator)

    def _run(self, advance: Callable[[], Chunk | Together | Answer[ResultT]]) -> None:
        since = time.perf_counter()
        self._pending, self.riders, self._read, self._sought = None, (), 0, None
        try:
            while isinstance(step := advance(), Answer):
                since = self._answer(step.result, since=since)
                advance = self._next
        except StopIteration as end:
            self._answer(end.value, since=since, last=True)
            return
        chunk, riders = (step.chunk, step.riders) if isinstance(step, Together) else (step, ())
        if not 0 <= chunk.rows <= len(chunk.token_ids) or not (chunk.token_ids or riders):
            raise ValueError("a chunk needs a token, and no more rows than tokens")
        self._pending, self.riders = chunk, riders
        # Ids before a chunk may be a draft that is rolled back, unless the chunk has final ones.
        if chunk.final:
            self._final_length = len(chunk.sequence.prefix) + chunk.final
        self._sampling_s += time.perf_counter() - since

    def _answer(self, result: ResultT, *, since: float, last: bool = False) -> float:
        """Notes an answer with its timings and starts them anew; the time now."""
        now = time.perf_counter()
        queue_s = self._queue_s + (now - self._waits_since if self._waits else 0.0)
        timings = RoundTimings(
            queue_us=_microseconds(queue_s),
            forward_us=_microseconds(self._forward_s),
            sampling_us=_microseconds(self._sampling_s + now - since),
            batch_size=self._batch_size,
        )
        self.answers.append(Done(result, timings, last))
        self._waits, self._waits_since = True, now
        self._queue_s = self._forward_s = self._sampling_s = 0.0
        self._batch_size = 0
        return now

    def _next_block(self) -> tuple[bytes, int, tuple[int, ...]] | None:
        """Names what it reads next, if others that read the same may find it afterwards."""
        chunk, prefix = self.pending, self.sequence.prefix
        size = self.sequence.pool.block_size
        if chunk.final - self._read < size:
            return None
        token_ids = tuple(chunk.token_ids[self._read : self._read + size])
        return self.sequence.scope, prefix.digest(len(prefix)), token_ids


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
