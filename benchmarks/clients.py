"""Many generations at once, as their clients see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.rpc.channel import open_channel
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc


@dataclass(slots=True)
class Seen:
    """One generation: when it was asked for, when its tokens came (by time.perf_counter)."""

    asked: float
    arrivals: list[float] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)

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
        seen = Seen(time.perf_counter())
        async for response in self._stub.Generate(_request(token_ids, output_tokens)):
            if response.HasField("chunk") and response.chunk.token_ids:
                seen.arrivals.append(time.perf_counter())
                seen.token_ids.extend(response.chunk.token_ids)
        if len(seen.token_ids) != output_tokens:
            raise RuntimeError(f"{len(seen.token_ids)} tokens came instead of {output_tokens}")
        return seen

    async def generate_all(
        self, prompts: Sequence[Sequence[int]], *, output_tokens: int
    ) -> list[Seen]:
        """An answer to each prompt, all at once."""
        return await asyncio.gather(
            *(self.generate(prompt, output_tokens=output_tokens) for prompt in prompts)
        )


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
        sampling=common_pb2.SamplingParams(temperature=1.0, seed=1, ignore_eos=True),
        speculation=generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF),
    )
