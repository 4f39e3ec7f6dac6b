"""What a worker's servicers need of a model loop, wherever that runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from outrider.engine.handles import HandleTable
from outrider.engine.ticket import Ticket
from outrider.worker.engine import Engine
from outrider.worker.memory import MemoryReport

JobT = TypeVar("JobT")
JobT_contra = TypeVar("JobT_contra", contravariant=True)
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")


class WorkerLoop(Protocol[JobT_contra, ResultT]):
    """Used on the event loop. Whatever crosses it can be pickled."""

    @property
    def alive(self) -> bool:
        """Whether it takes jobs."""
        ...

    @property
    def queue_depth(self) -> int:
        """Jobs whose first forward has not begun."""
        ...

    @property
    def forwards(self) -> int:
        """Forwards since the start."""
        ...

    @property
    def price(self) -> float:
        """Output tokens that one more row in a step costs all generations; 0: not known."""
        ...

    def submit(self, job: JobT_contra, *, stream: str = "") -> Ticket[ResultT]:
        """Queues a job of a generation. Raises PoolUnavailable when the loop is gone."""
        ...

    def forget(self, stream: str) -> None:
        """Says that a generation has ended."""
        ...

    async def call(self, action: Callable[[HandleTable], AnswerT]) -> AnswerT:
        """Runs a quick action on the KV states between two forwards, before queued jobs.

        It runs even when the caller is cancelled meanwhile. `action`: a function of a module, or
        a small frozen dataclass. Raises its OutriderErrors, and PoolUnavailable when the loop is
        gone.
        """
        ...

    async def memory(self) -> MemoryReport:
        """What KV state there is. Raises PoolUnavailable when the loop is gone."""
        ...

    async def close(self) -> None:
        """Ends the loop; open tickets raise PoolUnavailable."""
        ...


class ThreadLoop(Generic[JobT, ResultT]):
    """The model loop on a thread of this process."""

    def __init__(self, engine: Engine[JobT, ResultT]) -> None:
        """Starts the engine's loop."""
        self._handles = engine.handles
        self._memory = engine.memory
        self._loop = engine.loop
        self._loop.start()

    @property
    def alive(self) -> bool:
        """Whether the thread takes jobs."""
        return self._loop.alive

    @property
    def queue_depth(self) -> int:
        """Jobs whose first forward has not begun."""
        return self._loop.queue_depth

    @property
    def forwards(self) -> int:
        """Forwards since the start."""
        return self._loop.forwards

    @property
    def price(self) -> float:
        """Output tokens that one more row in a step costs all generations; 0: not known."""
        return self._loop.price

    def submit(self, job: JobT, *, stream: str = "") -> Ticket[ResultT]:
        """Queues a job of a generation. Raises PoolUnavailable when the thread is gone."""
        return self._loop.submit(job, stream=stream)

    def forget(self, stream: str) -> None:
        """Says that a generation has ended."""
        self._loop.forget(stream)

    async def call(self, action: Callable[[HandleTable], AnswerT]) -> AnswerT:
        """Runs a quick action on the KV states. Raises what it raises, and PoolUnavailable."""
        return await self._loop.call(partial(action, self._handles))

    async def memory(self) -> MemoryReport:
        """What KV state there is. Raises PoolUnavailable when the thread is gone."""
        return await self._loop.call(self._memory)

    async def close(self) -> None:
        """Ends the thread after the forward in progress."""
        await self._loop.close()
