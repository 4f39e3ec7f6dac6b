"""A worker whose model takes no time, or sleeps: `python -m benchmarks.scripted_worker ROLE [S]`.

S: seconds that a forward takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from outrider.rpc.ready import announce
from outrider.rpc.server import stop_signal
from outrider.settings.environment import environment_name
from outrider.testing.cluster import WorkerPlan, start_draft, start_target
from outrider.testing.scripted import TableModel, random_table

SEEDS = {"target": 1, "draft": 2}


async def serve(role: str, step_time_s: float) -> None:
    """Serves until SIGTERM."""
    stopping = stop_signal()
    model = TableModel(random_table(seed=SEEDS[role]), step_time_s=step_time_s)
    plan = WorkerPlan(model, dtype="float64")
    worker = await (start_target(plan) if role == "target" else start_draft(plan))
    announce(worker.rpc.address, Path(os.environ[environment_name("ready_file")]))
    await stopping.wait()
    await worker.stop(0.1)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
