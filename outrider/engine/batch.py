"""All work that is live on the model thread, and the step that advances it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog
import torch

from outrider.engine.live_work import LiveWork
from outrider.engine.model import Chunk, Model
from outrider.engine.ticket import Done, Ticket
from outrider.engine.work import Work
from outrider.errors import (
    InternalFailure,
    NumericalFailure,
    OutOfRange,
    OutriderError,
    PoolUnavailable,
)

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

_FAILED = "the model worker failed; its log says why"

log = structlog.get_logger(__name__)


class Batch(Generic[ResultT]):
    """Live works, oldest first. Each waits for the logits of one chunk."""

    def __init__(self, model: Model, *, prefill_slice: int) -> None:
        self._model = model
        self._prefill_slice = prefill_slice
        self._live: list[LiveWork[ResultT]] = []
        self.forwards = 0

    def __len__(self) -> int:
        return len(self._live)

    def add(
        self,
        start: Callable[[JobT], Work[ResultT]],
        job: JobT,
        ticket: Ticket[ResultT],
        *,
        arrived: float,
    ) -> None:
        """Starts a job's work and runs it up to its first chunk."""
        if ticket.abandoned:
            return
        try:
            work = LiveWork(start(job), ticket, arrived=arrived)
        except Exception as error:
            ticket.fail(_reported(error))
            return
        except BaseException:
            ticket.fail(InternalFailure(_FAILED))
            raise
        self._live.append(work)
        self._guard(work, work.begin)

    def step(self) -> None:
        """One forward over the pending chunks of all live works."""
        self._let_newest_have_sequences()
        self._refuse_what_is_too_long()
        works = list(self._live)
        if not works:
            return
        parts = [work.next_slice(self._prefill_slice) for work in works]
        began = time.perf_counter()
        try:
            rows = self._model.forward(parts)
            # Reading the answer also waits for a device that works asynchronously.
            finite = [bool(part_rows.isfinite().all()) for part_rows in rows]
        except Exception as error:
            reported = _reported(error)
            for work, part in zip(works, parts, strict=True):
                self._throw(work, part, reported)
            return
        ended = time.perf_counter()
        self.forwards += 1
        for work, part, part_rows, sound in zip(works, parts, rows, finite, strict=True):
            if sound:
                self._hand_over(work, part, part_rows, began=began, ended=ended, size=len(works))
            else:
                failure = NumericalFailure("the model gave NaN or infinite logits")
                self._throw(work, part, failure)

    def drop_abandoned(self) -> None:
        """Ends the works that nobody waits for."""
        for work in [work for work in self._live if work.ticket.abandoned]:
            self._remove(work)

    def fail_all(self, error: Exception) -> None:
        """Ends all works."""
        for work in list(self._live):
            self._fail(work, error)

    def _hand_over(
        self,
        work: LiveWork[ResultT],
        part: Chunk,
        rows: torch.Tensor,
        *,
        began: float,
        ended: float,
        size: int,
    ) -> None:
        self._guard(
            work,
            lambda: work.forwarded(part, rows, began=began, ended=ended, batch_size=size),
        )

    def _throw(self, work: LiveWork[ResultT], part: Chunk, error: Exception) -> None:
        """Clears the state that a bad forward may have spoilt; the work decides what is left."""
        part.sequence.rollback(0)
        self._guard(work, lambda: work.failed(error))

    def _guard(self, work: LiveWork[ResultT], advance: Callable[[], Done[ResultT] | None]) -> None:
        """Advances one work; its result or error is its own."""
        try:
            done = advance()
        except Exception as error:
            self._fail(work, _reported(error))
            return
        if done is not None:
            self._live.remove(work)
            work.ticket.deliver(done)

    def _let_newest_have_sequences(self) -> None:
        """Of works on one sequence the newest stays: its stream took the state over."""
        taken: set[int] = set()
        for work in reversed(list(self._live)):
            sequence = id(work.pending.sequence)
            if sequence in taken:
                self._fail(work, PoolUnavailable("another stream took over this KV state"))
            taken.add(sequence)

    def _refuse_what_is_too_long(self) -> None:
        limit = self._model.context_length
        for work in list(self._live):
            length = len(work.pending.sequence.prefix) + work.left
            if length > limit:
                self._fail(work, OutOfRange("token_ids", f"at most {limit} together", got=length))

    def _fail(self, work: LiveWork[ResultT], error: Exception) -> None:
        self._remove(work)
        work.ticket.fail(error)

    def _remove(self, work: LiveWork[ResultT]) -> None:
        self._live.remove(work)
        try:
            work.close()
        except Exception:
            log.exception("a work did not close")


def _reported(error: Exception) -> OutriderError:
    """What the caller may see of an error; anything unexpected stays in the log."""
    if isinstance(error, OutriderError):
        return error
    log.error("work on the model thread failed", exc_info=error)
    return InternalFailure(_FAILED)
