"""Many answers at once for a long time, with cancels, deadlines, kills and restarts (FAULTS G9).

Nothing that was not cancelled fails, and afterwards nothing is held: handles and blocks in use are
0, and the processes that lived through it take what they took before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.testing.fleet import Fleet, Replica
from outrider.testing.footprint import Footprint
from outrider.testing.processes import ServiceProcess
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request
from outrider.testing.trouble import Fault, Troublemaker
from outrider.v1 import generation_pb2, generation_pb2_grpc

AT_ONCE = 32
REQUESTS = 12
MOST_TOKENS = 128
GENTLE = [fault for fault in Fault if fault is not Fault.KILL]
MEBIBYTE = 1 << 20
MOST_GROWTH_BYTES = 24 * MEBIBYTE
RELEASE_S = 40.0
"""The limit of a silent pin and of a lease, and some more."""


@dataclass
class Load:
    """Clients that ask, read some of the answer or all of it, and ask again."""

    stub: generation_pb2_grpc.GenerationServiceAsyncStub
    expected: Sequence[Sequence[int]]
    rolls: random.Random
    over: asyncio.Event = field(default_factory=asyncio.Event)
    ends: Counter[str] = field(default_factory=Counter)

    async def client(self) -> None:
        """One of them."""
        while not self.over.is_set():
            number = self.rolls.randrange(len(self.expected))
            request = soak_request(number)
            request.max_new_tokens = self.rolls.randint(1, MOST_TOKENS)
            match self.rolls.randrange(10):
                case 0 | 1:
                    await self._left(request, number, after=self.rolls.randrange(20))
                case 2:
                    await self._late(request)
                case _:
                    assert await self._read(self.stub.Generate(request), number)
                    self.ends["whole"] += 1

    async def _left(
        self, request: generation_pb2.GenerateRequest, number: int, *, after: int
    ) -> None:
        """The client goes away after so many chunks."""
        call = self.stub.Generate(request)
        await self._read(call, number, most=after)
        call.cancel()
        self.ends["left"] += 1

    async def _late(self, request: generation_pb2.GenerateRequest) -> None:
        """The client has little time."""
        try:
            async for _ in self.stub.Generate(request, timeout=self.rolls.uniform(0.0, 0.5)):
                pass
        except aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED, error.details()
            self.ends["late"] += 1

    async def _read(
        self,
        call: AsyncIterable[generation_pb2.GenerateResponse],
        number: int,
        most: int | None = None,
    ) -> bool:
        """Whether the end was read; what came is what was expected, each token once."""
        place = chunks = 0
        if most == 0:
            return False
        async for response in call:
            if response.HasField("summary"):
                return True
            chunk, chunks = response.chunk, chunks + 1
            assert chunk.offset == place
            place += len(chunk.token_ids)
            assert list(chunk.token_ids) == list(self.expected[number][chunk.offset : place])
            if chunks == most:
                return False
        return False


def soak_request(number: int) -> generation_pb2.GenerateRequest:
    """Greedy and seeded ones in turn."""
    seed = number if number % 2 else None
    return tiny_request(number, tokens=MOST_TOKENS, seed=seed)


async def expected_outputs(stub: generation_pb2_grpc.GenerationServiceAsyncStub) -> list[list[int]]:
    """What each request gives undisturbed, of the target alone."""
    outputs = []
    for number in range(REQUESTS):
        request = soak_request(number)
        request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
        ids = [
            token_id
            async for response in stub.Generate(request)
            for token_id in response.chunk.token_ids
        ]
        outputs.append(ids)
    return outputs


async def soak(fleet: Fleet, *, seconds: float, seed: int) -> None:
    """Load and trouble for so long, then a look at what is left.

    The first target and the first draft are never killed: what they take is compared.
    """
    survivors = [fleet.targets[0].process, fleet.drafts[0].process, *fleet.coordinators]
    rolls = random.Random(seed)
    async with open_channel(fleet.addresses[0]) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        load = Load(stub, await expected_outputs(stub), rolls)
        clients = [asyncio.create_task(load.client()) for _ in range(AT_ONCE)]
        trouble = asyncio.create_task(make_trouble(fleet, rolls, load.over))
        began = time.monotonic()
        warm: list[Footprint] = []
        while (elapsed_s := time.monotonic() - began) < seconds:
            if not warm and elapsed_s > seconds / 3:
                warm = [Footprint.of(process.pid) for process in survivors]
            fallen = [one.exception() for one in (*clients, trouble) if one.done()]
            assert not fallen
            await asyncio.sleep(0.5)
        load.over.set()
        await asyncio.gather(*clients, trouble)
        await fleet.usable()
        await nothing_is_held(fleet, stub)
    print(f"\n{dict(load.ends)}")
    for process, before in zip(survivors, warm, strict=True):
        compare(process, before)


async def make_trouble(fleet: Fleet, rolls: random.Random, over: asyncio.Event) -> None:
    """Kills and restarts the last of each pool; does the rest to any."""
    pools = (fleet.targets, fleet.drafts)
    gentle = [Troublemaker(fleet, pool, rolls, longest_s=1.0) for pool in pools]
    deadly = [Troublemaker(fleet, pool[-1:], rolls, longest_s=1.0) for pool in pools]
    while True:
        steps: list[Callable[[], Awaitable[None]]] = [
            *(partial(maker.once, Fault.KILL) for maker in deadly),
            *(partial(restart, fleet, pool[-1]) for pool in pools),
            *(partial(maker.once, fault) for maker in gentle for fault in GENTLE),
        ]
        for step in rolls.sample(steps, len(steps)):
            if over.is_set():
                return
            await step()


async def restart(fleet: Fleet, worker: Replica) -> None:
    """SIGTERM, and a new process at the same address."""
    code = await asyncio.to_thread(worker.process.stop)
    assert code == 0
    await asyncio.to_thread(worker.process.start)
    await fleet.usable()


async def nothing_is_held(
    fleet: Fleet, stub: generation_pb2_grpc.GenerationServiceAsyncStub
) -> None:
    """Handles, blocks and places are free again, in time."""
    deadline = time.monotonic() + RELEASE_S
    while True:
        statuses = [await worker.status() for worker in fleet.workers]
        state = await stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
        held = {
            "handles": sum(status.handles_in_use for status in statuses),
            "blocks": sum(status.kv_blocks_in_use for status in statuses),
            "generations": sum(one.generations for one in (*state.targets, *state.drafts)),
            "places": state.running + state.waiting,
        }
        if not any(held.values()):
            return
        assert time.monotonic() < deadline, held
        await asyncio.sleep(0.5)


def compare(process: ServiceProcess, before: Footprint) -> None:
    """No more memory, threads and files than when it was warm."""
    after = Footprint.of(process.pid)
    print(process.name, process.replica, before, after)
    assert after.rss_bytes - before.rss_bytes < max(MOST_GROWTH_BYTES, before.rss_bytes // 10)
    assert after.threads <= before.threads + 4
    assert after.files <= before.files + 16


@pytest.mark.timeout(600)
async def test_twenty_seconds(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, worker={"lease_s": "5"}) as fleet:
        await soak(fleet, seconds=20.0, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_half_an_hour(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path) as fleet:
        await soak(fleet, seconds=1800.0, seed=2)
