"""Where a worker's servicers find the model once it is loaded, and until the worker drains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from outrider.errors import Exhausted, PoolUnavailable
from outrider.rpc.limits import MAX_PENDING_STREAMS
from outrider.rpc.open_calls import OpenCalls

RETRY_AFTER_S = 1.0
MOST_STREAMS = MAX_PENDING_STREAMS
"""Those that wait for a handle included."""

WorkerT = TypeVar("WorkerT")


class WorkerSlot(Generic[WorkerT]):
    """Empty while the model loads, then filled once; the server answers in both states."""

    def __init__(self) -> None:
        self._worker: WorkerT | None = None
        self._streams = OpenCalls()
        self._draining = False

    def fill(self, worker: WorkerT) -> None:
        """Puts the loaded worker in."""
        self._worker = worker

    @property
    def draining(self) -> bool:
        """It lets no stream in any more."""
        return self._draining

    @property
    def filled(self) -> bool:
        """The model is loaded."""
        return self._worker is not None

    def get(self) -> WorkerT:
        """The loaded worker. Raises PoolUnavailable while it is not there yet."""
        if self._worker is None:
            raise PoolUnavailable("the model is still loading", retry_after_s=RETRY_AFTER_S)
        return self._worker

    @contextmanager
    def stream(self) -> Iterator[WorkerT]:
        """The loaded worker, for the time of one stream.

        Raises PoolUnavailable while it is not there yet, and once the worker drains; Exhausted
        while there are MOST_STREAMS.
        """
        worker = self.get()
        if self._draining:
            raise PoolUnavailable("this worker is draining", retry_after_s=RETRY_AFTER_S)
        if self._streams.count >= MOST_STREAMS:
            raise Exhausted("too many streams are open", retry_after_s=RETRY_AFTER_S)
        with self._streams:
            yield worker

    async def drain(self, grace_s: float) -> None:
        """Lets no stream in any more; returns once the last has ended, or after `grace_s`."""
        self._draining = True
        await self._streams.wait_for_none(most_s=grace_s)
