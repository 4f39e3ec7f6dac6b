"""Workers whose model is in a process of its own, for models that a function makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from outrider.engine.model import Model
from outrider.rpc.server import Listener
from outrider.testing.cluster import LOOPBACK, describe, identified
from outrider.worker.engine import EngineOptions
from outrider.worker.engine_plan import EnginePlan
from outrider.worker.engine_process import ProcessLoop
from outrider.worker.model_description import ModelDescription
from outrider.worker.server import WorkerKind, WorkerServer

DEFAULT_OPTIONS = EngineOptions()


def process_plan(
    kind: WorkerKind[Any, Any],
    build: Callable[[], Model],
    *,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> EnginePlan:
    """The plan of a process that does the work of `kind`. `build` can be pickled."""
    return EnginePlan(
        partial(_load, build),
        kind.start_work,
        options=options,
        log_level="warning",
        log_format="console",
        count_outputs=kind.count_outputs,
    )


async def start_worker_process(
    kind: WorkerKind[Any, Any],
    build: Callable[[], Model],
    *,
    options: EngineOptions = DEFAULT_OPTIONS,
    address: str = LOOPBACK,
) -> WorkerServer[Any, Any]:
    """A worker that is SERVING, its model in another process; `build` can be pickled."""
    server = WorkerServer(kind, Listener(address))
    await server.rpc.start()
    loop: ProcessLoop[Any, Any] = ProcessLoop()
    description = await loop.start(process_plan(kind, build, options=options))
    await server.fill(loop, identified(description, kind))
    return server


def _load(build: Callable[[], Model]) -> tuple[Model, ModelDescription]:
    model = build()
    return model, describe(model)
