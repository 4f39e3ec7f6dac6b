"""Runs one worker: listens at once, loads the model in a thread, serves, drains."""

from __future__ import annotations

import asyncio
import secrets
from typing import TypeVar

import structlog

from outrider import telemetry
from outrider.engine.gathering import NoGathering, WaitForReturns
from outrider.engine.loading import LoadedModel, load_model
from outrider.engine.loop_options import LoopOptions
from outrider.engine.model_files import Role
from outrider.engine.warm_up import warm_up
from outrider.rpc.background import in_daemon_thread, leave_at_once
from outrider.rpc.ready import announce
from outrider.rpc.server import Listener, stop_signal
from outrider.rpc.tls import TlsFiles
from outrider.settings import WorkerSettings
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2
from outrider.worker.model_service import ModelDescription
from outrider.worker.server import WorkerKind, WorkerServer
from outrider.worker.tokenizer_files import read_tokenizer_files

log = structlog.get_logger(__name__)

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

WARM_UP_ROWS = 5


async def serve_worker(kind: WorkerKind[JobT, ResultT], settings: WorkerSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError and ModelLoadError."""
    stopping = stop_signal()
    replica_id = secrets.token_hex(8)
    flush_traces = telemetry.configure(f"outrider-{_role(kind)}", replica_id=replica_id)
    tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    server = WorkerServer(kind, Listener(settings.listen, tls))
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
    """Loads the model beside the loop and serves it, unless the end comes first."""
    address = server.rpc.address
    log.info("loading", role=_role(kind), model=settings.model, address=address)
    loading = asyncio.create_task(
        in_daemon_thread(lambda: _load(settings, _role(kind)), name="loading")
    )
    await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        loading.cancel()
        return
    loaded, tokenizer = loading.result()
    await server.fill(
        loaded.model,
        _describe(loaded, tokenizer, kind, settings, replica_id=replica_id),
        max_handles=settings.max_handles,
        lease_s=settings.lease_s,
        options=LoopOptions(
            token_budget=settings.token_budget,
            prefill_slice=settings.prefill_slice,
            admission_queue=settings.admission_queue,
            admission_wait_s=settings.admission_wait_s,
        ),
        gathering=WaitForReturns() if settings.gather else NoGathering(),
    )
    announce(address, settings.ready_file)
    log.info("serving", role=_role(kind), address=address, dtype=loaded.dtype)


def _load(settings: WorkerSettings, role: Role) -> tuple[LoadedModel, TokenizerFiles]:
    loaded = load_model(
        settings.model,
        role=role,
        dtype=settings.dtype.value,
        device=settings.device,
        threads=settings.threads,
        cache_dir=settings.cache_dir,
        context_length=settings.context_length,
        kv_memory=settings.kv_budget,
        block_size=settings.kv_block_size,
        progress=lambda step: log.info("loading", step=step),
    )
    warm_up(loaded.model, WARM_UP_ROWS)
    return loaded, read_tokenizer_files(loaded.folder)


def _role(kind: WorkerKind[JobT, ResultT]) -> Role:
    return "target" if kind.role == model_pb2.WORKER_ROLE_TARGET else "draft"


def _describe(
    loaded: LoadedModel,
    tokenizer: TokenizerFiles,
    kind: WorkerKind[JobT, ResultT],
    settings: WorkerSettings,
    *,
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
        features=kind.features,
        tokenizer=tokenizer,
    )
