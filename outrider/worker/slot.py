"""Where a worker's servicers find the model once it is loaded."""

from __future__ import annotations

from typing import Generic, TypeVar

from outrider.errors import PoolUnavailable

WorkerT = TypeVar("WorkerT")


class WorkerSlot(Generic[WorkerT]):
    """Empty while the model loads, then filled once; the server answers in both states."""

    def __init__(self) -> None:
        self._worker: WorkerT | None = None

    def fill(self, worker: WorkerT) -> None:
        """Puts the loaded worker in."""
        self._worker = worker

    @property
    def filled(self) -> bool:
        """The model is loaded."""
        return self._worker is not None

    def get(self) -> WorkerT:
        """The loaded worker. Raises PoolUnavailable while it is not there yet."""
        if self._worker is None:
            raise PoolUnavailable("the model is still loading", retry_after_s=1.0)
        return self._worker
