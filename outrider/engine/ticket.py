"""What the event loop holds of a job that the model thread works on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Withdrawn(Exception):  # noqa: N818
    """The job was taken back before its first forward; nothing was drawn."""


@dataclass(frozen=True, slots=True)
class RoundTimings:
    """Where the time of one job went.

    `queue_us`: arrival to the start of its first forward. `forward_us`: all forwards it shared.
    `sampling_us`: its own code around them. `batch_size`: jobs that shared the last forward,
    0 if it needed none.
    """

    queue_us: int
    forward_us: int
    sampling_us: int
    batch_size: int


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT_co]):
    """A job's result and its timings."""

    result: ResultT_co
    timings: RoundTimings


class Ticket(Generic[ResultT]):
    """A submitted job. `result` and `withdraw` belong to the event loop it was submitted on."""

    def __init__(self, withdraw: Callable[[Ticket[ResultT]], bool]) -> None:
        """`withdraw` takes the job out of the queue, unless its first forward has begun."""
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Done[ResultT]] = self._loop.create_future()
        self._withdraw = withdraw

    async def result(self) -> Done[ResultT]:
        """The result, once there is one. Cancelling this wait abandons the job.

        Raises what the work raised if that is an OutriderError, InternalFailure for anything
        else, NumericalFailure for NaN or infinite logits, PoolUnavailable when the thread ends,
        and Withdrawn.
        """
        return await self._future

    @property
    def future(self) -> asyncio.Future[Done[ResultT]]:
        """What `result` waits for, to be awaited together with others. Cancelling it abandons the
        job."""
        return self._future

    def withdraw(self) -> bool:
        """Takes the job back. False: its first forward has begun, or it has ended."""
        if not self._withdraw(self):
            return False
        self._settle(error=Withdrawn())
        return True

    @property
    def abandoned(self) -> bool:
        """Nobody waits for the result any more. May be read from any thread."""
        return self._future.cancelled()

    def deliver(self, done: Done[ResultT]) -> None:
        """Hands over the result. Called on the model thread."""
        self._call_soon(lambda: self._settle(done=done))

    def fail(self, error: Exception) -> None:
        """Hands over the error. Called on the model thread."""
        self._call_soon(lambda: self._settle(error=error))

    def _call_soon(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The event loop may be closed: then nobody waits.
            self._loop.call_soon_threadsafe(action)

    def _settle(self, *, done: Done[ResultT] | None = None, error: Exception | None = None) -> None:
        if self._future.done():
            return
        if done is not None:
            self._future.set_result(done)
        elif error is not None:
            self._future.set_exception(error)
            self._future.exception()  # Marked as seen: a waiter may have left already.
