"""Runs one worker: listens at once, loads the model in a thread, serves, drains."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from grpc import aio

from outrider import telemetry
from outrider.engine.handles import HandleTable
from outrider.engine.loading import LoadedModel, load_model
from outrider.engine.loop import ModelLoop
from outrider.engine.model import Model
from outrider.engine.warm_up import warm_up
from outrider.engine.work import Work
from outrider.rpc.ready import announce
from outrider.rpc.server import Listener, RpcServer, stop_signal
from outrider.rpc.tls import TlsFiles
from outrider.settings import WorkerSettings
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.model_service import ModelDescription, ModelServicer
from outrider.worker.runtime import Runtime
from outrider.worker.slot import WorkerSlot
from outrider.worker.tokenizer_files import read_tokenizer_files

log = structlog.get_logger(__name__)

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

MODEL_SERVICE = "outrider.v1.ModelService"
WARM_UP_ROWS = 5


@dataclass(frozen=True, slots=True)
class WorkerKind(Generic[JobT, ResultT]):
    """What makes a worker a draft or a target."""

    role: model_pb2.WorkerRole
    service_name: str
    register: Callable[[aio.Server, WorkerSlot[Runtime[JobT, ResultT]]], None]
    start_work: Callable[[JobT, Model, HandleTable], Work[ResultT]]
    max_draft_length: int = 0

    @property
    def service_names(self) -> Sequence[str]:
        """The services of its server."""
        return (self.service_name, MODEL_SERVICE)


class WorkerServer(Generic[JobT, ResultT]):
    """A worker's server: it answers health from its first moment, and all else once filled."""

    def __init__(self, kind: WorkerKind[JobT, ResultT], listener: Listener) -> None:
        self._kind = kind
        self._slot: WorkerSlot[Runtime[JobT, ResultT]] = WorkerSlot()
        self.rpc = RpcServer(listener, service_names=kind.service_names)
        kind.register(self.rpc.grpc_server, self._slot)
        model_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelServicer(self._slot), self.rpc.grpc_server
        )

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
        max_tokens: int,
        lease_s: float,
    ) -> None:
        """Starts the model thread and says SERVING."""
        handles = HandleTable(
            model.new_sequence, max_handles=max_handles, max_tokens=max_tokens, lease_s=lease_s
        )
        start_work = self._kind.start_work
        loop: ModelLoop[JobT, ResultT] = ModelLoop(
            model, lambda job: start_work(job, model, handles)
        )
        loop.start()
        self._slot.fill(Runtime(description, model, loop, handles))
        await self.rpc.set_serving()

    async def stop(self, grace_s: float) -> None:
        """Drains, then ends the model thread."""
        await self.rpc.drain(grace_s)
        if self._slot.filled:
            await self._slot.get().loop.close()


async def serve_worker(kind: WorkerKind[JobT, ResultT], settings: WorkerSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError and ModelLoadError."""
    stopping = stop_signal()
    replica_id = secrets.token_hex(8)
    role = model_pb2.WorkerRole.Name(kind.role).removeprefix("WORKER_ROLE_").lower()
    flush_traces = telemetry.configure(f"outrider-{role}", replica_id=replica_id)
    tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    server = WorkerServer(kind, Listener(settings.listen, tls))
    await server.rpc.start()
    log.info("loading", role=role, model=settings.model, address=server.rpc.address)
    try:
        loading = asyncio.create_task(asyncio.to_thread(_load, kind, settings, role))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            loaded = loading.result()
            await server.fill(
                loaded.model,
                _describe(loaded, kind, settings, replica_id),
                max_handles=settings.max_handles,
                max_tokens=settings.kv_tokens,
                lease_s=settings.lease_s,
            )
            announce(server.rpc.address, settings.ready_file)
            log.info("serving", role=role, address=server.rpc.address, dtype=loaded.dtype)
            await stopped
        log.info("draining", role=role)
        await server.stop(settings.drain_s)
    finally:
        flush_traces()
    return 0


def _load(kind: WorkerKind[JobT, ResultT], settings: WorkerSettings, role: str) -> LoadedModel:
    loaded = load_model(
        settings.model,
        role=role,
        dtype=settings.dtype.value,
        device=settings.device,
        threads=settings.threads,
        cache_dir=settings.cache_dir,
        context_length=settings.context_length,
        progress=lambda step: log.info("loading", step=step),
    )
    warm_up(loaded.model, WARM_UP_ROWS)
    return loaded


def _describe(
    loaded: LoadedModel,
    kind: WorkerKind[JobT, ResultT],
    settings: WorkerSettings,
    replica_id: str,
) -> ModelDescription:
    return ModelDescription(
        name=settings.public_name,
        role=kind.role,
        weights_digest=loaded.weights_digest,
        vocabulary_size=loaded.model.vocabulary_size,
        context_length=loaded.model.context_length,
        replica_id=replica_id,
        dtype=loaded.dtype,
        device=loaded.device,
        eos_token_ids=tuple(loaded.eos_token_ids),
        bos_token_id=loaded.bos_token_id,
        max_draft_length=kind.max_draft_length,
        tokenizer=read_tokenizer_files(loaded.folder),
    )
