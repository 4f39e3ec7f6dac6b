"""The model thread: jobs in, results out, one forward for all work that is live.

The event loop and the thread exchange plain values only, so the thread may become a process of
its own. The event loop never runs a forward.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

import structlog
import torch

from outrider.engine.batch import Batch
from outrider.engine.gathering import Gathering, NoGathering, WaitForReturns
from outrider.engine.inbox import Inbox, gone
from outrider.engine.live_work import Submission
from outrider.engine.live_works import LiveWorks, no_outputs
from outrider.engine.loop_options import LoopOptions
from outrider.engine.model import Model
from outrider.engine.prefill_slice import FittedSlice, FixedSlice
from outrider.engine.room import Room
from outrider.engine.step import Step
from outrider.engine.step_time import RowPrice, StepTimeFit
from outrider.engine.ticket import AnswersTo, Done, RoundTimings, Ticket, Withdrawn
from outrider.engine.unbegun import Unbegun
from outrider.engine.work import Work
from outrider.errors import PoolUnavailable

__all__ = [
    "Done",
    "LoopOptions",
    "ModelLoop",
    "NoGathering",
    "RoundTimings",
    "Ticket",
    "WaitForReturns",
    "Withdrawn",
]

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")

DEFAULTS = LoopOptions()

log = structlog.get_logger(__name__)


class ModelLoop(Generic[JobT, ResultT]):
    """Runs jobs on one model thread, all live ones together."""

    def __init__(
        self,
        model: Model,
        start: Callable[[JobT], Work[ResultT]],
        *,
        options: LoopOptions = DEFAULTS,
        gathering: Gathering | None = None,
        count_outputs: Callable[[ResultT], int] = no_outputs,
    ) -> None:
        """`start` makes a job's work and runs on the model thread.

        `gathering` says how long a step waits for generations that were just answered; the
        default is WaitForReturns. `count_outputs`: how many output tokens a result holds.
        """
        self._start = start
        self._fit = StepTimeFit()
        self._price = RowPrice(self._fit)
        self._unbegun = Unbegun()
        self._inbox: Inbox[JobT, ResultT] = Inbox(gathering or WaitForReturns())
        slicing = options.prefill_slice
        self._batch: Batch[ResultT] = Batch(
            model,
            works=LiveWorks(
                self._unbegun, answering=self._inbox.answered, count_outputs=count_outputs
            ),
            room=Room(
                model.pool,
                longest_line=options.admission_queue,
                wait_s=options.admission_wait_s,
            ),
            prefill_slice=FixedSlice(slicing) if slicing else FittedSlice(self._fit),
            token_budget=options.token_budget,
        )
        self._stuck = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Starts the thread. Call once."""
        self._inbox.open()
        self._thread.start()

    async def close(self) -> None:
        """Ends the thread after the forward in progress; open tickets raise PoolUnavailable."""
        self._inbox.close()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def join(self) -> None:
        """Waits until the thread has ended."""
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread takes jobs."""
        return self._inbox.is_open and self._thread.is_alive()

    @property
    def queue_depth(self) -> int:
        """Jobs whose first forward has not begun."""
        return len(self._unbegun)

    @property
    def forwards(self) -> int:
        """Forwards since the start."""
        return self._batch.forwards

    @property
    def price(self) -> float:
        """Output tokens that one more row in a step costs all generations; 0: not known."""
        return self._price.value

    def submit(self, job: JobT, *, stream: str = "") -> Ticket[ResultT]:
        """Queues a job; call on the event loop. Raises PoolUnavailable when the thread is gone.

        `stream` names the generation: steps wait a moment for one that was just answered, and
        it has its turn beside others. Call `forget` at its end.
        """
        ticket: Ticket[ResultT] = Ticket(self._withdraw)
        self.enqueue(Submission(job, ticket, stream, time.perf_counter()))
        return ticket

    def enqueue(self, submission: Submission[JobT, ResultT]) -> None:
        """As `submit`, for any thread: the answers go to the ticket that is given."""
        self._unbegun.add(submission.ticket)
        try:
            self._inbox.post(submission)
        except Exception:
            self._unbegun.take(submission.ticket)
            raise

    def withdraw(self, ticket: AnswersTo[ResultT]) -> bool:
        """Takes a job back, if its first forward has not begun. For any thread."""
        return self._unbegun.take(ticket)

    def forget(self, stream: str) -> None:
        """Says that a stream has ended. For any thread, any number of times."""

        def act() -> None:
            self._inbox.forget(stream)
            self._batch.forget(stream)

        # Not before the forward in progress: that may still answer the stream.
        with suppress(PoolUnavailable):
            self._inbox.post_call(act)

    async def call(self, action: Callable[[], AnswerT]) -> AnswerT:
        """Runs a quick action on the model thread between two forwards, before queued jobs.

        It runs even when the caller is cancelled meanwhile. Raises what `action` raises, and
        PoolUnavailable when the thread is gone.
        """
        return await asyncio.shield(asyncio.wrap_future(self.request(action)))

    def request(self, action: Callable[[], AnswerT]) -> Future[AnswerT]:
        """As `call`, for any thread. It does not run if its future is cancelled before."""
        answer: Future[AnswerT] = Future()

        def act() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(action())
            except Exception as error:
                answer.set_exception(error)
            except BaseException:
                answer.set_exception(gone())
                raise

        self._inbox.post_call(act)
        return answer

    async def _withdraw(self, ticket: Ticket[ResultT]) -> bool:
        return self.withdraw(ticket)

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
        self._inbox.wait(ready=self._ready, deadline=self._batch.deadline)
        while call := self._inbox.take_call():
            # First, so that no call finds an abandoned work still using its state.
            self._batch.drop_unwanted()
            call()
            self._stuck = False
        if self._inbox.gathers(ready=self._ready):
            return True
        if not self._inbox.is_open:
            return False
        jobs = self._inbox.take_jobs()
        # After the jobs are taken: one of them may stand in for a job that was withdrawn.
        self._batch.drop_unwanted()
        for submission in jobs:
            self._batch.add(self._start, submission)
        step = self._batch.step()
        if step is not None:
            self._account(step)
        self._stuck = step is None and not self._batch.runnable
        return True

    @property
    def _ready(self) -> bool:
        """There is work that a step may advance, as far as is known."""
        return len(self._batch) > 0 and not self._stuck

    def _account(self, step: Step) -> None:
        """Learns from a step, and decides whom the next one waits for."""
        self._inbox.step_ended(step_s=step.seconds)
        self._fit.observe(step.load, step.seconds)
        self._price.observe(step.load, outputs=step.outputs)

    def _end(self) -> None:
        self._inbox.close()
        while call := self._inbox.take_call():
            with suppress(BaseException):  # Its caller has the error.
                call()
        self._batch.fail_all(gone())
        # Jobs in the inbox, and those that were taken out of it when the thread ended.
        while ticket := self._unbegun.take_any():
            ticket.fail(gone())
