"""The model thread: jobs in, results out, one forward for all work that is live.

The event loop and the thread exchange plain values only, so the thread may become a process of
its own. The event loop never runs a forward.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
import torch

from outrider.engine.batch import Batch
from outrider.engine.model import Model
from outrider.engine.ticket import Done, RoundTimings, Ticket, Withdrawn
from outrider.engine.work import Work
from outrider.errors import PoolUnavailable

__all__ = ["Done", "ModelLoop", "RoundTimings", "Ticket", "Withdrawn"]

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")

PREFILL_SLICE = 512
RETRY_AFTER_S = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Queued(Generic[JobT, ResultT]):
    job: JobT
    ticket: Ticket[ResultT]
    arrived: float


class ModelLoop(Generic[JobT, ResultT]):
    """Runs jobs on one model thread, all live ones together."""

    def __init__(
        self,
        model: Model,
        start: Callable[[JobT], Work[ResultT]],
        *,
        prefill_slice: int = PREFILL_SLICE,
    ) -> None:
        """`start` makes a job's work and runs on the model thread.

        A chunk of more than `prefill_slice` tokens is spread over several forwards, so that
        other work gets in between and memory stays bounded.
        """
        self._start = start
        self._batch: Batch[ResultT] = Batch(model, prefill_slice=prefill_slice)
        self._changed = threading.Condition()
        self._jobs: deque[_Queued[JobT, ResultT]] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self._open = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Starts the thread. Call once."""
        self._open = True
        self._thread.start()

    async def close(self) -> None:
        """Ends the thread after the forward in progress; open tickets raise PoolUnavailable."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    @property
    def alive(self) -> bool:
        """Whether the thread takes jobs."""
        return self._open and self._thread.is_alive()

    @property
    def queue_depth(self) -> int:
        """Jobs whose first forward has not begun."""
        return len(self._jobs)

    @property
    def forwards(self) -> int:
        """Forwards since the start."""
        return self._batch.forwards

    def submit(self, job: JobT) -> Ticket[ResultT]:
        """Queues a job; call on the event loop. Raises PoolUnavailable when the thread is gone."""
        ticket: Ticket[ResultT] = Ticket(self._withdraw)
        with self._changed:
            self._check_open()
            self._jobs.append(_Queued(job, ticket, time.perf_counter()))
            self._changed.notify()
        return ticket

    async def call(self, action: Callable[[], AnswerT]) -> AnswerT:
        """Runs a quick action on the model thread between two forwards, before queued jobs.

        It runs even when the caller is cancelled meanwhile. Raises what `action` raises, and
        PoolUnavailable when the thread is gone.
        """
        answer: Future[AnswerT] = Future()

        def act() -> None:
            answer.set_running_or_notify_cancel()
            try:
                answer.set_result(action())
            except Exception as error:
                answer.set_exception(error)
            except BaseException:
                answer.set_exception(_gone())
                raise

        with self._changed:
            self._check_open()
            self._calls.append(act)
            self._changed.notify()
        return await asyncio.shield(asyncio.wrap_future(answer))

    def _check_open(self) -> None:
        if not self._open:
            raise _gone()

    def _withdraw(self, ticket: Ticket[ResultT]) -> bool:
        with self._changed:
            for queued in self._jobs:
                if queued.ticket is ticket:
                    self._jobs.remove(queued)
                    return True
        return False

    def _run(self) -> None:
        try:
            # The work's own arithmetic writes into tensors that the forward made.
            with torch.inference_mode():
                while self._turn():
                    pass
        except BaseException:
            log.critical("the model thread ended", exc_info=True)
        finally:
            self._end()

    def _turn(self) -> bool:
        """One forward and what goes before it; False when the thread is to end."""
        with self._changed:
            while self._open and not (self._calls or self._jobs or self._batch):
                self._changed.wait()
        while call := self._next_call():
            # First, so that no call finds an abandoned work still using its state.
            self._batch.drop_abandoned()
            call()
        self._batch.drop_abandoned()
        while queued := self._next_job():
            self._batch.add(self._start, queued.job, queued.ticket, arrived=queued.arrived)
        if not self._open:
            return False
        self._batch.step()
        return True

    def _next_call(self) -> Callable[[], None] | None:
        with self._changed:
            return self._calls.popleft() if self._calls else None

    def _next_job(self) -> _Queued[JobT, ResultT] | None:
        with self._changed:
            return self._jobs.popleft() if self._jobs and self._open else None

    def _end(self) -> None:
        with self._changed:
            self._open = False
            calls, self._calls = self._calls, deque()
            jobs, self._jobs = self._jobs, deque()
        for call in calls:
            call()
        for queued in jobs:
            queued.ticket.fail(_gone())
        self._batch.fail_all(_gone())


def _gone() -> PoolUnavailable:
    return PoolUnavailable("the model thread has ended", retry_after_s=RETRY_AFTER_S)
