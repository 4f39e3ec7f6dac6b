"""Runs one worker: listens at once, starts its model loop, serves, drains."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog

from outrider import telemetry
from outrider.engine.loop_options import LoopOptions
from outrider.engine.role import Role
from outrider.rpc.background import in_daemon_thread, leave_at_once
from outrider.rpc.ready import announce
from outrider.rpc.server import stop_signal
from outrider.settings import EngineChoice, WorkerSettings
from outrider.v1 import model_pb2
from outrider.worker.engine import Engine, EngineOptions
from outrider.worker.engine_plan import EnginePlan
from outrider.worker.engine_process import ProcessLoop
from outrider.worker.listener import worker_listener
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_loading import load_worker_model, settle_model
from outrider.worker.server import WorkerKind, WorkerServer
from outrider.worker.worker_loop import ThreadLoop, WorkerLoop

log = structlog.get_logger(__name__)

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


async def serve_worker(kind: WorkerKind[JobT, ResultT], settings: WorkerSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError and ModelLoadError."""
    stopping = stop_signal()
    replica_id = secrets.token_hex(8)
    flush_traces = telemetry.configure(f"outrider-{_role(kind)}", replica_id=replica_id)
    server = WorkerServer(kind, worker_listener(settings), hang_s=settings.hang_s)
    await server.rpc.start()
    stopped = asyncio.create_task(stopping.wait())
    try:
        await _fill_or_stop(server, kind, settings, replica_id=replica_id, stopped=stopped)
        await stopped
        log.info("draining")
    finally:
        stopped.cancel()
        await server.stop(settings.drain_s)
        flush_traces()
    if not server.filled:
        leave_at_once(0)
    return 0


async def _fill_or_stop(
    server: WorkerServer[JobT, ResultT],
    kind: WorkerKind[JobT, ResultT],
    settings: WorkerSettings,
    *,
    replica_id: str,
    stopped: asyncio.Task[bool],
) -> None:
    """Starts the model loop beside the event loop and serves it, unless the end comes first."""
    address = server.rpc.address
    log.info("loading", role=_role(kind), model=settings.model, address=address)
    loading = asyncio.create_task(_start_loop(kind, settings))
    await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        loading.cancel()
        await asyncio.wait({loading})
        return
    loop, description = loading.result()
    description = replace(
        description,
        name=settings.public_name,
        role=kind.role,
        replica_id=replica_id,
        max_draft_length=kind.max_draft_length,
        features=kind.features,
        drafter=kind.drafter,
    )
    await server.fill(loop, description)
    announce(address, settings.ready_file)
    log.info("serving", role=_role(kind), address=address, dtype=description.dtype)


async def _start_loop(
    kind: WorkerKind[JobT, ResultT], settings: WorkerSettings
) -> tuple[WorkerLoop[JobT, ResultT], ModelDescription]:
    """A running model loop and what there is to say about its model. Raises ModelLoadError."""
    load = partial(load_worker_model, settings, _role(kind))
    if settings.engine is EngineChoice.PROCESS:
        process: ProcessLoop[JobT, ResultT] = ProcessLoop()
        plan = EnginePlan(
            load,
            kind.start_work,
            options=_options(settings),
            log_level=settings.log_level,
            log_format=settings.log_format,
            count_outputs=kind.count_outputs,
            settle=partial(settle_model, settings),
        )
        return process, await process.start(plan)
    model, description = await in_daemon_thread(load, name="loading")
    engine: Engine[JobT, ResultT] = Engine(
        model,
        kind.start_work,
        options=_options(settings),
        count_outputs=kind.count_outputs,
    )
    loop = ThreadLoop(engine)
    await engine.loop.call(partial(settle_model, settings, model))
    return loop, description


def _options(settings: WorkerSettings) -> EngineOptions:
    return EngineOptions(
        max_handles=settings.max_handles,
        lease_s=settings.lease_s,
        gather=settings.gather,
        loop=LoopOptions(
            token_budget=settings.token_budget,
            prefill_slice=settings.prefill_slice,
            admission_queue=settings.admission_queue,
            admission_wait_s=settings.admission_wait_s,
        ),
    )


def _role(kind: WorkerKind[JobT, ResultT]) -> Role:
    return "target" if kind.role == model_pb2.WORKER_ROLE_TARGET else "draft"
