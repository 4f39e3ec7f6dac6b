"""A worker's gRPC server, from its first moment to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from grpc import aio

from outrider.engine.handles import HandleTable
from outrider.engine.live_works import no_outputs
from outrider.errors import OutriderError
from outrider.rpc.server import Listener, RpcServer
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.engine import StartWork
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_service import ModelServicer
from outrider.worker.runtime import Runtime
from outrider.worker.slot import WorkerSlot
from outrider.worker.worker_loop import WorkerLoop

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

MODEL_SERVICE = "outrider.v1.ModelService"
LOOP_WATCH_INTERVAL_S = 0.5
HANG_S = 600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerKind(Generic[JobT, ResultT]):
    """What makes a worker a draft or a target.

    `start_work` and `count_outputs` can be pickled. `drafter`: how a draft comes by its tokens.
    """

    role: model_pb2.WorkerRole.ValueType
    service_name: str
    register: Callable[[aio.Server, WorkerSlot[Runtime[JobT, ResultT]]], None]
    start_work: StartWork[JobT, ResultT]
    max_draft_length: int = 0
    features: tuple[str, ...] = ()
    drafter: str = ""
    count_outputs: Callable[[ResultT], int] = no_outputs

    @property
    def service_names(self) -> Sequence[str]:
        """The services of its server."""
        return (self.service_name, MODEL_SERVICE)


class WorkerServer(Generic[JobT, ResultT]):
    """A worker's server: it answers health from its first moment, and all else once filled."""

    def __init__(
        self, kind: WorkerKind[JobT, ResultT], listener: Listener, *, hang_s: float = HANG_S
    ) -> None:
        """`hang_s`: how long the model loop may not answer before it is taken to hang."""
        self._hang_s = hang_s
        self._slot: WorkerSlot[Runtime[JobT, ResultT]] = WorkerSlot()
        self._watcher: asyncio.Task[None] | None = None
        self.rpc = RpcServer(listener, service_names=kind.service_names)
        kind.register(self.rpc.grpc_server, self._slot)
        model_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelServicer(self._slot.get), self.rpc.grpc_server
        )

    @property
    def filled(self) -> bool:
        """The model is loaded."""
        return self._slot.filled

    @property
    def runtime(self) -> Runtime[JobT, ResultT]:
        """The loaded worker. Raises PoolUnavailable before it is there."""
        return self._slot.get()

    async def fill(self, loop: WorkerLoop[JobT, ResultT], description: ModelDescription) -> None:
        """Takes a running loop over, which `stop` closes, and says SERVING."""
        self._slot.fill(Runtime(description, loop))
        await self.rpc.set_serving()
        self._watcher = asyncio.create_task(self._watch(loop))

    async def _watch(self, loop: WorkerLoop[JobT, ResultT]) -> None:
        """A worker whose model loop has died says so. Silent streams lose their pins in time."""
        while loop.alive:
            await asyncio.sleep(LOOP_WATCH_INTERVAL_S)
            with suppress(OutriderError):
                await self._expire(loop)
        await self.rpc.set_not_serving()

    async def _expire(self, loop: WorkerLoop[JobT, ResultT]) -> None:
        """Has the model loop do it; a loop that does not come to it hangs, until it does."""
        expiring = asyncio.create_task(loop.call(HandleTable.expire))
        finished, _ = await asyncio.wait({expiring}, timeout=self._hang_s)
        if not finished:
            log.error("the model does not answer", seconds=self._hang_s)
            self.runtime.hangs = True
            await self.rpc.set_not_serving()
            await asyncio.wait({expiring})
            log.warning("the model answers again")
            self.runtime.hangs = False
            if not self._slot.draining:
                await self.rpc.set_serving()
        expiring.result()

    async def stop(self, grace_s: float) -> None:
        """Drains, then ends the model loop.

        Open streams go on for `grace_s`. Meanwhile new ones are refused by name, and health and
        the state of the worker can still be asked for: gRPC's own drain would turn all away.
        """
        began = time.monotonic()
        await self.rpc.set_not_serving()
        await self._slot.drain(grace_s)
        if self._watcher is not None:
            self._watcher.cancel()
        await self.rpc.drain(max(0.0, began + grace_s - time.monotonic()))
        if self._slot.filled:
            await self._slot.get().loop.close()
