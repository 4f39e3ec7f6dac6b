"""Many generations at once, as their clients see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.ways import OFF
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc


@dataclass(slots=True)
class Seen:
    """One generation: when it was asked for, when chunks came (by time.perf_counter), how many
    tokens each had."""

    asked: float
    arrivals: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    summary: generation_pb2.GenerationSummary = field(
        default_factory=generation_pb2.GenerationSummary
    )

    @property
    def tokens_per_s(self) -> float:
        """After the first chunk: the prompt is no part of it."""
        return sum(self.counts[1:]) / (self.ended - self.arrivals[0])

    @property
    def first_token_s(self) -> float:
        """Time to the first token."""
        return self.arrivals[0] - self.asked

    @property
    def ended(self) -> float:
        """When the last token came."""
        return self.arrivals[-1]


class Clients:
    """Clients of one coordinator in one event loop. An asynchronous context manager."""

    def __init__(self, coordinator: str) -> None:
        self._channel = open_channel(coordinator)
        self._stub = generation_pb2_grpc.GenerationServiceStub(self._channel)

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def generate(self, token_ids: Sequence[int], *, output_tokens: int) -> Seen:
        """One answer of exactly `output_tokens`, sampled from the target alone.

        Raises AioRpcError.
        """
        return await self.answer(_request(token_ids, output_tokens))

    async def answer(self, request: generation_pb2.GenerateRequest) -> Seen:
        """One answer of exactly `max_new_tokens`. Raises AioRpcError."""
        seen = Seen(time.perf_counter())
        async for response in self._stub.Generate(request):
            if response.HasField("summary"):
                seen.summary = response.summary
            elif response.chunk.token_ids:
                seen.arrivals.append(time.perf_counter())
                seen.counts.append(len(response.chunk.token_ids))
                seen.token_ids.extend(response.chunk.token_ids)
        if len(seen.token_ids) != request.max_new_tokens:
            raise RuntimeError(
                f"{len(seen.token_ids)} tokens came instead of {request.max_new_tokens}"
            )
        return seen

    async def generate_all(
        self, prompts: Sequence[Sequence[int]], *, output_tokens: int
    ) -> list[Seen]:
        """An answer to each prompt, all at once."""
        return await asyncio.gather(
            *(self.generate(prompt, output_tokens=output_tokens) for prompt in prompts)
        )

    async def answer_all(self, requests: Sequence[generation_pb2.GenerateRequest]) -> list[Seen]:
        """An answer to each request, all at once."""
        return await asyncio.gather(*(self.answer(request) for request in requests))


def answer_all(coordinator: str, requests: Sequence[generation_pb2.GenerateRequest]) -> list[Seen]:
    """An answer to each request, all at once, from a client that lives as long as that takes."""

    async def run() -> list[Seen]:
        async with Clients(coordinator) as clients:
            return await clients.answer_all(requests)

    return asyncio.run(run())


def tokens_per_s(
    coordinator: str, prompts: Sequence[Sequence[int]], *, output_tokens: int
) -> float:
    """All output tokens over the time from asking to the last one, prefill included."""

    async def run() -> float:
        async with Clients(coordinator) as clients:
            seen = await clients.generate_all(prompts, output_tokens=output_tokens)
        since = min(one.asked for one in seen)
        return len(seen) * output_tokens / (max(one.ended for one in seen) - since)

    return asyncio.run(run())


def _request(token_ids: Sequence[int], output_tokens: int) -> generation_pb2.GenerateRequest:
    return token_request(
        token_ids,
        max_new_tokens=output_tokens,
        sampling=common_pb2.SamplingParams(
            temperature=1.0,
            seed=1,
            ignore_eos=True,
            verification=common_pb2.VERIFICATION_REJECTION,
        ),
        speculation=OFF,
    )
