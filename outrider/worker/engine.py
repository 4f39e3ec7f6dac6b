"""A worker's model, its KV states and the loop that works on them, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from outrider.engine.gathering import NoGathering, WaitForReturns
from outrider.engine.handles import LEASE_S, HandleTable
from outrider.engine.live_works import no_outputs
from outrider.engine.loop import LoopOptions, ModelLoop
from outrider.engine.model import Model
from outrider.engine.work import Work
from outrider.worker.memory import MemoryReport, memory_report

JobT = TypeVar("JobT")
JobT_contra = TypeVar("JobT_contra", contravariant=True)
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

MAX_HANDLES = 1024
LOOP_DEFAULTS = LoopOptions()


class StartWork(Protocol[JobT_contra, ResultT_co]):
    """Makes a job's work, on the model thread. It can be pickled."""

    def __call__(
        self, job: JobT_contra, *, model: Model, handles: HandleTable
    ) -> Work[ResultT_co]: ...


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What can be chosen. `gather`: a step waits a moment for generations just answered."""

    max_handles: int = MAX_HANDLES
    lease_s: float = LEASE_S
    gather: bool = True
    loop: LoopOptions = LOOP_DEFAULTS


class Engine(Generic[JobT, ResultT]):
    """The loop takes jobs once it is started; `handles` belong to its thread."""

    def __init__(
        self,
        model: Model,
        start_work: StartWork[JobT, ResultT],
        *,
        options: EngineOptions,
        count_outputs: Callable[[Any], int] = no_outputs,
    ) -> None:
        """`count_outputs`: how many output tokens a result holds."""
        self._pool = model.pool
        self.handles = handles = HandleTable(
            model.new_sequence, max_handles=options.max_handles, lease_s=options.lease_s
        )
        self.loop: ModelLoop[JobT, ResultT] = ModelLoop(
            model,
            lambda job: start_work(job, model=model, handles=handles),
            options=options.loop,
            gathering=WaitForReturns() if options.gather else NoGathering(),
            count_outputs=count_outputs,
        )

    def memory(self) -> MemoryReport:
        """Counts at this moment. Runs on the model thread."""
        return memory_report(self.handles, self._pool)
