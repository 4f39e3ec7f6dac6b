"""Clients that keep a coordinator busy with a fixed number of generations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeAlias

from outrider.bench.observation import Observation
from outrider.bench.prompts import Prompt
from outrider.bench.setting import Setting
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

READ_TOKENS = 3
"""Enough for a round with draft tokens."""
LARGEST_SEED = 2**64 - 1
PAUSE_S = 0.05
"""Between stints: what was cancelled at the end of one has left the workers."""


class BrokenOutputError(Exception):
    """A server ended an output without its summary."""


PutPrompt: TypeAlias = Callable[[Prompt, generation_pb2.GenerateRequest], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """What one setting did with the requests of one turn, all of them at once."""

    setting: Setting
    observations: tuple[Observation, ...]
    """One for each request, in order."""
    tokens: int
    """All output tokens that came, those of generations that only kept up the load included."""
    seconds: float
    """From the first request until the last observed generation ended."""

    @property
    def tokens_per_s(self) -> float:
        """Of all clients together."""
        return self.tokens / self.seconds


class Load:
    """Sends prompts to coordinators, as many at once as it is given."""

    def __init__(
        self,
        stubs: Mapping[str, generation_pb2_grpc.GenerationServiceAsyncStub],
        prompts: Sequence[Prompt],
        *,
        sampling: common_pb2.SamplingParams,
        put_prompt: PutPrompt = Prompt.put_chat,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Request n has prompt n, round and round; with a seed in `sampling`, the n-th after it.

        `stubs`: of the coordinator of each drafter; with the empty label that of all settings that
        name none. Each call is sent with `metadata`.
        """
        self._stubs = stubs
        self._prompts = prompts
        self._sampling = sampling
        self._put_prompt = put_prompt
        self._metadata = tuple(metadata)

    def prompt_of(self, number: int) -> int:
        """Index of the prompt that request has."""
        return number % len(self._prompts)

    async def read(self, numbers: Sequence[int]) -> None:
        """Lets all workers read the prompts of these requests, one after the other.

        Raises AioRpcError or BrokenOutputError.
        """
        for drafter in self._stubs:
            reading = Setting("reading", generation_pb2.SPECULATION_MODE_ON, drafter=drafter)
            for number in numbers:
                observation = Observation(number, time.perf_counter())
                await self._generate(reading, observation, max_new_tokens=READ_TOKENS)

    async def stint(self, setting: Setting, numbers: Sequence[int], *, tokens: int) -> Stint:
        """Sends the requests of these numbers, all at once, each for up to `tokens` output tokens.

        Whoever is done before the others sends further ones, which are not observed and are
        cancelled in the end, so that the load is the same from beginning to end.

        Raises AioRpcError or BrokenOutputError.
        """
        started = time.perf_counter()
        seen: list[Observation] = []
        left = len(numbers)
        all_done = asyncio.Event()

        async def client(place: int) -> None:
            nonlocal left
            await generate(numbers[place])
            left -= 1
            if not left:
                all_done.set()
            for number in islice(cycle(numbers), place + 1, None):
                await generate(number)
            raise AssertionError("requests come round for ever")

        async def generate(number: int) -> None:
            observation = Observation(number, time.perf_counter())
            seen.append(observation)
            await self._generate(setting, observation, max_new_tokens=tokens)

        clients = [asyncio.create_task(client(place)) for place in range(len(numbers))]
        finish = asyncio.create_task(all_done.wait())
        try:
            await asyncio.wait([finish, *clients], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = time.perf_counter()
            for task in (finish, *clients):
                task.cancel()
            outcomes = await asyncio.gather(*clients, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        await asyncio.sleep(PAUSE_S)
        came = sum(count for one in seen for when, count in one.arrivals if when <= ended)
        return Stint(
            setting=setting,
            observations=tuple(seen[: len(numbers)]),
            tokens=came,
            seconds=ended - started,
        )

    async def _generate(
        self, setting: Setting, observation: Observation, *, max_new_tokens: int
    ) -> None:
        """Fills the observation."""
        request = generation_pb2.GenerateRequest(
            max_new_tokens=max_new_tokens,
            sampling=self._sampling,
            speculation=setting.to_message(),
        )
        if request.sampling.HasField("seed"):
            request.sampling.seed = (request.sampling.seed + observation.number) & LARGEST_SEED
        self._put_prompt(self._prompts[self.prompt_of(observation.number)], request)
        call = self._stubs[setting.drafter].Generate(request, metadata=self._metadata)
        try:
            async for response in call:
                now = time.perf_counter()
                if response.HasField("summary"):
                    observation.ended = now
                    observation.stats = response.summary.speculation
                elif response.chunk.token_ids:
                    observation.arrivals.append((now, len(response.chunk.token_ids)))
                    observation.token_ids.extend(response.chunk.token_ids)
        finally:
            call.cancel()
        if not observation.ended:
            raise BrokenOutputError("the output ended without a summary")
