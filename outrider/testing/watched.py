"""Generations as a client watches them: what came, and how long nothing came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.v1 import generation_pb2, generation_pb2_grpc


@dataclass(slots=True)
class Watched:
    """One generation. Times are of time.monotonic."""

    token_ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When the request was sent, then when each chunk came."""
    gapless: bool = True
    summary: generation_pb2.GenerationSummary | None = None
    error: aio.AioRpcError | None = None

    @property
    def stalls_s(self) -> list[float]:
        """Times between chunks, that before the first left out."""
        return [later - earlier for earlier, later in pairwise(self.times[1:])]

    def longest_stall_s(self, since: float) -> float:
        """The longest time without a chunk that ended after `since`."""
        return max(
            (later - earlier for earlier, later in pairwise(self.times) if later > since),
            default=0.0,
        )


Ask = Callable[[generation_pb2.GenerateRequest], Coroutine[Any, Any, Watched]]


@asynccontextmanager
async def watching(address: str) -> AsyncIterator[Ask]:
    """Asks the coordinator at `address`, on one channel. A failure is kept, not raised."""
    async with open_channel(address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)

        async def ask(request: generation_pb2.GenerateRequest) -> Watched:
            watched = Watched(times=[time.monotonic()])
            try:
                async for response in stub.Generate(request):
                    if response.HasField("summary"):
                        watched.summary = response.summary
                        continue
                    chunk = response.chunk
                    watched.times.append(time.monotonic())
                    watched.gapless &= chunk.offset == len(watched.token_ids)
                    watched.token_ids += chunk.token_ids
            except aio.AioRpcError as error:
                watched.error = error
            return watched

        yield ask


async def ask_all(
    ask: Ask, requests: Sequence[generation_pb2.GenerateRequest], *, at_once: int
) -> list[Watched]:
    """The answers in order of the requests, so many of them at a time."""
    places = asyncio.Semaphore(at_once)

    async def one(request: generation_pb2.GenerateRequest) -> Watched:
        async with places:
            return await ask(request)

    return list(await asyncio.gather(*map(one, requests)))
