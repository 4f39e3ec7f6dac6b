"""A loaded worker: its model loop, its description and its counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from outrider.engine.handles import HandleTable
from outrider.engine.ticket import RoundTimings
from outrider.errors import PoolUnavailable
from outrider.v1 import model_pb2
from outrider.worker.model_description import ModelDescription
from outrider.worker.worker_loop import WorkerLoop

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")


RETRY_AFTER_S = 1.0


@dataclass(slots=True)
class RoundCounts:
    """Sums since the process started. `batch_sizes`: over the last forwards of all rounds."""

    rounds: int = 0
    batch_sizes: int = 0
    draft_tokens: int = 0
    copied_tokens: int = 0
    accepted_tokens: int = 0
    draft_invalid_rounds: int = 0

    def answered(self, timings: RoundTimings) -> None:
        """Counts one answer."""
        self.rounds += 1
        self.batch_sizes += timings.batch_size


@dataclass(slots=True)
class Runtime(Generic[JobT, ResultT]):
    """What the servicers of one worker share once the model is loaded."""

    description: ModelDescription
    loop: WorkerLoop[JobT, ResultT]
    counts: RoundCounts = field(default_factory=RoundCounts)
    open_streams: int = 0
    hangs: bool = False
    """The model loop has not answered for so long that nobody should wait for it any more."""
    background: set[asyncio.Task[Any]] = field(default_factory=set)
    ready_since: float = field(default_factory=time.monotonic)

    def check_alive(self) -> None:
        """Raises PoolUnavailable while the model loop hangs: whoever waits is not to be told that
        it is still at work."""
        if self.hangs:
            raise PoolUnavailable("the model does not answer", retry_after_s=RETRY_AFTER_S)

    async def on_model_thread(self, action: Callable[[HandleTable], AnswerT]) -> AnswerT:
        """Runs a quick operation on the KV state where that state lives.

        `action` can be pickled: a function of a module, or a small frozen dataclass.
        """
        return await self.loop.call(action)

    async def status(self) -> model_pb2.ModelServiceGetStatusResponse:
        """Load and memory at this moment."""
        memory = await self.loop.memory()
        counts = self.counts
        return model_pb2.ModelServiceGetStatusResponse(
            open_streams=self.open_streams,
            handles_in_use=memory.handles.in_use,
            handles_leased=memory.handles.leased,
            kv_tokens=memory.handles.kv_tokens,
            kv_bytes=memory.blocks_in_use * memory.block_bytes,
            kv_pool_bytes=memory.blocks * memory.block_bytes,
            kv_blocks=memory.blocks,
            kv_blocks_in_use=memory.blocks_in_use,
            kv_blocks_cached=memory.blocks_cached,
            prefix_asked_tokens=memory.sums.prefix_asked_tokens,
            prefix_hit_tokens=memory.sums.prefix_hit_tokens,
            preemptions=memory.sums.preemptions,
            weights_bytes=self.description.weights_bytes,
            queue_depth=self.loop.queue_depth,
            mean_batch_size=counts.batch_sizes / counts.rounds if counts.rounds else 0.0,
            rounds=counts.rounds,
            draft_tokens=counts.draft_tokens,
            copied_tokens=counts.copied_tokens,
            accepted_tokens=counts.accepted_tokens,
            draft_invalid_rounds=counts.draft_invalid_rounds,
            price=self.loop.price,
            uptime_s=time.monotonic() - self.ready_since,
        )
