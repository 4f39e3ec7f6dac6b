"""What the event loop holds of a job that the model thread works on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)
ResultT_contra = TypeVar("ResultT_contra", contravariant=True)


class Withdrawn(Exception):  # noqa: N818
    """The job was taken back before its first forward; nothing was drawn."""


@dataclass(frozen=True, slots=True)
class RoundTimings:
    """Where the time of one answer went, since the job's arrival or its answer before.

    `queue_us`: until the start of the next forward, whatever it waited for: the forward in
    progress, returning generations, room for KV state. `forward_us`: all forwards it shared.
    `sampling_us`: its own code around them. `batch_size`: jobs that shared the last forward,
    0 if it needed none.
    """

    queue_us: int
    forward_us: int
    sampling_us: int
    batch_size: int


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT_co]):
    """One answer of a job and its timings. After the `last` one there is no other."""

    result: ResultT_co
    timings: RoundTimings
    last: bool = True


class AnswersTo(Protocol[ResultT_contra]):
    """The model thread's end of a job: where its answers go."""

    @property
    def abandoned(self) -> bool:
        """Nobody waits for the answers any more. May be read from any thread."""
        ...

    def deliver(self, done: Done[ResultT_contra]) -> None:
        """Hands over an answer."""
        ...

    def fail(self, error: Exception) -> None:
        """Hands over the error, behind the answers that are there."""
        ...


class Ticket(Generic[ResultT]):
    """A submitted job. It belongs to the event loop it was submitted on, save where noted.

    Most jobs have one answer. One with several is read by `future` and `take`, or by `answers`.
    """

    def __init__(
        self,
        withdraw: Callable[[Ticket[ResultT]], Awaitable[bool]],
        *,
        on_abandoned: Callable[[Ticket[ResultT]], None] | None = None,
    ) -> None:
        """`withdraw` takes the job out of the queue, unless its first forward has begun.

        `on_abandoned` is told once nobody waits for the answers, maybe more than once.
        """
        self._loop = asyncio.get_running_loop()
        self._withdraw = withdraw
        self._on_abandoned = on_abandoned
        self._abandoned = False
        self._future = self._new_future()
        self._behind: deque[Done[ResultT] | Exception] = deque()

    async def result(self) -> Done[ResultT]:
        """The last answer, once there is one. Cancelling this wait abandons the job.

        Raises what the work raised if that is an OutriderError, InternalFailure for anything
        else, NumericalFailure for NaN or infinite logits, Exhausted when there was no room for
        its KV state, PoolUnavailable when the thread ends, and Withdrawn.
        """
        while True:
            await self._future
            done = self.take()
            if done.last:
                return done

    async def answers(self) -> AsyncIterator[Done[ResultT]]:
        """All answers in their order. Raises as `result` does, after the answers before."""
        while True:
            await self._future
            done = self.take()
            yield done
            if done.last:
                return

    @property
    def future(self) -> asyncio.Future[Done[ResultT]]:
        """Stands for the first answer not taken yet, to be awaited together with others.

        Cancelling it abandons the job.
        """
        return self._future

    def take(self) -> Done[ResultT]:
        """The answer that `future` stands for, which must be there.

        After one that is not the last, `future` stands for the next. Raises as `result` does.
        """
        done = self._future.result()
        if not done.last:
            self._future = self._new_future()
            if self._behind:
                self._settle(self._behind.popleft())
            elif self._abandoned:
                self._future.cancel()
        return done

    async def withdraw(self) -> bool:
        """Takes the job back. False: its first forward has begun, or it has ended."""
        if not await self._withdraw(self):
            return False
        self._abandoned = True
        self.hand_in(Withdrawn())
        return True

    def abandon(self) -> None:
        """Says that nobody wants the answers; the work ends before the next forward."""
        self._abandoned = True
        cancelled = self._future.cancel()
        if not cancelled and self._on_abandoned is not None:
            # An answer lies there, so that no future tells it.
            self._on_abandoned(self)

    @property
    def abandoned(self) -> bool:
        """Nobody waits for the answers any more. May be read from any thread."""
        return self._abandoned or self._future.cancelled()

    def deliver(self, done: Done[ResultT]) -> None:
        """Hands over an answer. Called on the model thread."""
        self._call_soon(lambda: self.hand_in(done))

    def fail(self, error: Exception) -> None:
        """Hands over the error, behind the answers that are there. Called on the model thread."""
        self._call_soon(lambda: self.hand_in(error))

    def _call_soon(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The event loop may be closed: then nobody waits.
            self._loop.call_soon_threadsafe(action)

    def hand_in(self, answer: Done[ResultT] | Exception) -> None:
        """As `deliver` and `fail`, on the event loop."""
        if self._future.done():
            self._behind.append(answer)
        else:
            self._settle(answer)

    def _new_future(self) -> asyncio.Future[Done[ResultT]]:
        future: asyncio.Future[Done[ResultT]] = self._loop.create_future()
        if self._on_abandoned is not None:
            future.add_done_callback(self._tell_if_cancelled)
        return future

    def _tell_if_cancelled(self, future: asyncio.Future[Done[ResultT]]) -> None:
        if future.cancelled() and self._on_abandoned is not None:
            self._on_abandoned(self)

    def _settle(self, answer: Done[ResultT] | Exception) -> None:
        if isinstance(answer, Exception):
            self._future.set_exception(answer)
            self._future.exception()  # Marked as seen: a waiter may have left already.
        else:
            self._future.set_result(answer)
