"""One of the emulated pair: `python -m benchmarks.emulated_worker ROLE STEP_S ROW_S`.

A forward over n tokens takes STEP_S + n · ROW_S.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from draft_service.proposal import CandidateCut
from outrider.engine.threads import configure_threads
from outrider.rpc.ready import announce
from outrider.rpc.server import stop_signal
from outrider.settings.environment import environment_name
from outrider.testing.cluster import WorkerPlan, start_draft, start_target
from outrider.testing.emulated import emulated_draft, emulated_target

WHOLE_Q = CandidateCut(mass=0.9999)
"""Less would cut the rarest of an emulated draft's few choices, and acceptance with it."""
LONGEST_DRAFT = 32


async def serve(role: str, step_time_s: float, row_time_s: float) -> None:
    """Serves until SIGTERM."""
    # Rows of 64 ids are soon summed: threads would wait for each other longer than that takes.
    configure_threads(1)
    stopping = stop_signal()
    make = emulated_target if role == "target" else emulated_draft
    plan = WorkerPlan(make(step_time_s=step_time_s, row_time_s=row_time_s))
    starting = (
        start_target(plan, max_draft_length=LONGEST_DRAFT)
        if role == "target"
        else start_draft(plan, cut=WHOLE_Q)
    )
    worker = await starting
    announce(worker.rpc.address, Path(os.environ[environment_name("ready_file")]))
    await stopping.wait()
    await worker.stop(0.1)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
