"""A target whose event loop and model have a core each, run by COMMAND and four arguments.

Thread or process; a scripted model's seconds for a forward, or `embedded`; the event loop's core;
the model's. The address goes to standard output; it ends when standard input does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from outrider.engine.handles import HandleTable
from outrider.engine.model import Model
from outrider.logs import configure_logs
from outrider.rpc.server import Listener
from outrider.settings import LogFormat, LogLevel, TargetSettings
from outrider.testing.cluster import LOOPBACK, describe, identified
from outrider.testing.scripted import TableModel, random_table
from outrider.worker.engine import Engine, EngineOptions
from outrider.worker.engine_plan import EnginePlan
from outrider.worker.engine_process import ProcessLoop
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_loading import load_worker_model
from outrider.worker.server import WorkerServer
from outrider.worker.worker_loop import ThreadLoop, WorkerLoop
from target_service.kind import target_kind

COMMAND = (sys.executable, "-c", "from benchmarks.placed_target import main; main()")
"""With ROOT as a path of modules. Not -m: what the model's process is told to run has to be in a
module that it can import."""
EMBEDDED = "embedded"
ROOT = Path(__file__).parents[1]
KIND = target_kind(max_draft_length=16)
OPTIONS = EngineOptions()


@dataclass(frozen=True, slots=True)
class StayOn:
    """Keeps the model thread on one core."""

    core: int

    def __call__(self, handles: HandleTable) -> None:
        """Runs on the model thread."""
        os.sched_setaffinity(0, {self.core})


async def serve(engine: str, model: str, *, loop_core: int, model_core: int) -> None:
    """Serves until standard input ends."""
    load = _loader(model)
    server = WorkerServer(KIND, Listener(LOOPBACK))
    await server.rpc.start()
    # A process that starts here stays on the model's core with all its threads.
    os.sched_setaffinity(0, {model_core})
    loop, description = await _start(engine, load)
    _move_all_threads(loop_core)
    await loop.call(StayOn(model_core))
    await server.fill(loop, identified(description, KIND))
    print(server.rpc.address, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0.1)


def scripted(step_time_s: float) -> tuple[Model, ModelDescription]:
    """A model that sleeps, as long as a device would take."""
    model = TableModel(random_table(seed=1), step_time_s=step_time_s)
    return model, describe(model)


def _loader(model: str) -> Callable[[], tuple[Model, ModelDescription]]:
    if model == EMBEDDED:
        settings = TargetSettings(model=EMBEDDED, dtype="bfloat16", threads=1)
        return partial(load_worker_model, settings, "target")
    return partial(scripted, float(model))


async def _start(
    engine: str, load: Callable[[], tuple[Model, ModelDescription]]
) -> tuple[WorkerLoop[Any, Any], ModelDescription]:
    if engine == "process":
        process: ProcessLoop[Any, Any] = ProcessLoop()
        plan = EnginePlan(
            load,
            KIND.start_work,
            options=OPTIONS,
            log_level=LogLevel.WARNING,
            log_format=LogFormat.CONSOLE,
            count_outputs=KIND.count_outputs,
        )
        return process, await process.start(plan)
    model, description = load()
    made: Engine[Any, Any] = Engine(
        model, KIND.start_work, options=OPTIONS, count_outputs=KIND.count_outputs
    )
    return ThreadLoop(made), description


def _move_all_threads(core: int) -> None:
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {core})


def main() -> None:
    """What a fresh interpreter runs with the arguments as above."""
    configure_logs(level=LogLevel.WARNING, log_format=LogFormat.CONSOLE)
    engine, model, loop_core, model_core = sys.argv[1:]
    asyncio.run(serve(engine, model, loop_core=int(loop_core), model_core=int(model_core)))
