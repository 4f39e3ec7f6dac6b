"""A worker's gRPC server, from its first moment to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from grpc import aio

from outrider.engine.gathering import Gathering
from outrider.engine.handles import HandleTable
from outrider.engine.live_works import no_outputs
from outrider.engine.loop import ModelLoop
from outrider.engine.loop_options import LoopOptions
from outrider.engine.model import Model
from outrider.engine.work import Work
from outrider.rpc.server import Listener, RpcServer
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.model_service import ModelDescription, ModelServicer
from outrider.worker.runtime import Runtime
from outrider.worker.slot import WorkerSlot

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

MODEL_SERVICE = "outrider.v1.ModelService"
THREAD_WATCH_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class WorkerKind(Generic[JobT, ResultT]):
    """What makes a worker a draft or a target."""

    role: model_pb2.WorkerRole.ValueType
    service_name: str
    register: Callable[[aio.Server, WorkerSlot[Runtime[JobT, ResultT]]], None]
    start_work: Callable[[JobT, Model, HandleTable], Work[ResultT]]
    max_draft_length: int = 0
    features: tuple[str, ...] = ()
    count_outputs: Callable[[ResultT], int] = no_outputs

    @property
    def service_names(self) -> Sequence[str]:
        """The services of its server."""
        return (self.service_name, MODEL_SERVICE)


class WorkerServer(Generic[JobT, ResultT]):
    """A worker's server: it answers health from its first moment, and all else once filled."""

    def __init__(self, kind: WorkerKind[JobT, ResultT], listener: Listener) -> None:
        self._kind = kind
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

    async def fill(
        self,
        model: Model,
        description: ModelDescription,
        *,
        max_handles: int,
        lease_s: float,
        options: LoopOptions,
        gathering: Gathering,
    ) -> None:
        """Starts the model thread and says SERVING."""
        handles = HandleTable(model.new_sequence, max_handles=max_handles, lease_s=lease_s)
        start_work = self._kind.start_work
        loop: ModelLoop[JobT, ResultT] = ModelLoop(
            model,
            lambda job: start_work(job, model, handles),
            options=options,
            gathering=gathering,
            count_outputs=self._kind.count_outputs,
        )
        loop.start()
        self._slot.fill(Runtime(description, model, loop, handles))
        await self.rpc.set_serving()
        self._watcher = asyncio.create_task(self._watch(loop))

    async def _watch(self, loop: ModelLoop[JobT, ResultT]) -> None:
        """A worker whose model thread has died says so."""
        while loop.alive:  # noqa: ASYNC110 (the thread has no event to wait for)
            await asyncio.sleep(THREAD_WATCH_INTERVAL_S)
        await self.rpc.set_not_serving()

    async def stop(self, grace_s: float) -> None:
        """Drains, then ends the model thread."""
        if self._watcher is not None:
            self._watcher.cancel()
        await self.rpc.drain(grace_s)
        if self._slot.filled:
            await self._slot.get().loop.close()
