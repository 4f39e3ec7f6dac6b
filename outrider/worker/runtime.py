"""A loaded worker: its model loop, its KV state, its description and its counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from outrider.engine.handles import HandleStatus, HandleTable
from outrider.engine.loop import ModelLoop
from outrider.engine.model import Model
from outrider.v1 import model_pb2
from outrider.worker.model_service import ModelDescription

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")


@dataclass(slots=True)
class RoundCounts:
    """Sums since the process started."""

    rounds: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    draft_invalid_rounds: int = 0


@dataclass(slots=True)
class Runtime(Generic[JobT, ResultT]):
    """What the servicers of one worker share once the model is loaded."""

    description: ModelDescription
    model: Model
    loop: ModelLoop[JobT, ResultT]
    handles: HandleTable
    counts: RoundCounts = field(default_factory=RoundCounts)
    open_streams: int = 0
    background: set[asyncio.Task[Any]] = field(default_factory=set)
    ready_since: float = field(default_factory=time.monotonic)

    async def on_model_thread(self, action: Callable[[HandleTable], AnswerT]) -> AnswerT:
        """Runs a quick operation on the KV state where that state lives."""
        return await self.loop.call(lambda: action(self.handles))

    async def status(self) -> model_pb2.ModelServiceGetStatusResponse:
        """Load and memory at this moment."""
        handles: HandleStatus = await self.on_model_thread(HandleTable.status)
        return model_pb2.ModelServiceGetStatusResponse(
            open_streams=self.open_streams,
            handles_in_use=handles.in_use,
            handles_leased=handles.leased,
            kv_tokens=handles.kv_tokens,
            kv_bytes=handles.kv_bytes,
            weights_bytes=self.model.weights_bytes,
            queue_depth=self.loop.queue_depth,
            rounds=self.counts.rounds,
            draft_tokens=self.counts.draft_tokens,
            accepted_tokens=self.counts.accepted_tokens,
            draft_invalid_rounds=self.counts.draft_invalid_rounds,
            uptime_s=time.monotonic() - self.ready_since,
        )
