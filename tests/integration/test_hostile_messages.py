"""Workers among hostile callers: stale, repeated, reordered, truncated and mutated messages.

Whatever comes, the generations of others stay right, nothing crashes, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import resource
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.engine.handles import HandleTable
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, draft_pb2, generation_pb2, model_pb2, target_pb2
from outrider.worker.server import WorkerServer
from tests.integration.hostile_messages import (
    CONTEXT_LENGTH,
    SCOPES,
    VOCABULARY_SIZE,
    Mischief,
)

VERIFY = "/outrider.v1.TargetService/Verify"
DRAFT = "/outrider.v1.DraftService/Draft"
ALLOWED = {
    StatusCode.OK,
    StatusCode.INVALID_ARGUMENT,
    StatusCode.OUT_OF_RANGE,
    StatusCode.UNIMPLEMENTED,
    StatusCode.RESOURCE_EXHAUSTED,
    # Another stream took the state over.
    StatusCode.UNAVAILABLE,
}
FROM_HERE = "Internal error from Core"
"""gRPC's own words on the caller's side, for a message that was being sent as the call ended."""
AT_ONCE = 16
SAMPLINGS = (
    common_pb2.SamplingParams(seed=5, temperature=0),
    common_pb2.SamplingParams(
        seed=6, temperature=0.9, verification=common_pb2.VERIFICATION_COUPLED
    ),
)
GROWTH_BYTES = 64 << 20
"""Of the whole process, over the second half of the messages."""


@dataclass
class Attack:
    """Hostile streams at one worker until that many messages were sent."""

    channel: aio.Channel
    path: str
    mischief: Mischief
    messages: int
    sent: int = 0
    ends: Counter[StatusCode] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Several at a time."""
        await asyncio.gather(*(self._go_on() for _ in range(AT_ONCE)))

    async def _go_on(self) -> None:
        while self.sent < self.messages:
            await self._stream()

    async def _stream(self) -> None:
        mischief, chance = self.mischief, self.mischief.random
        data = mischief.target_stream() if self.path == VERIFY else mischief.draft_stream()
        self.sent += len(data)
        call = self.channel.stream_stream(self.path)()
        leaves = chance.random()
        answered = asyncio.Event()
        reading = asyncio.create_task(self._read(call, answered))
        try:
            for place, one in enumerate(data):
                await call.write(one)
                if place and chance.random() < 0.6:
                    answered.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(answered.wait(), 0.3)
            if leaves < 0.2:
                # A run or a draft is cut off in the middle.
                await asyncio.sleep(0.01 * chance.random())
                call.cancel()
            else:
                await call.done_writing()
                await asyncio.wait_for(reading, 60)
        except (aio.AioRpcError, asyncio.InvalidStateError, aio.UsageError):
            pass
        finally:
            call.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if not call.cancelled():
            code, details = await call.code(), await call.details()
            if details != FROM_HERE:
                self.ends[code] += 1
                if code not in ALLOWED:
                    self.details.append(f"{code}: {details}")

    async def _read(
        self, call: aio.StreamStreamCall[bytes, bytes], answered: asyncio.Event
    ) -> None:
        kind = target_pb2.VerifyResponse if self.path == VERIFY else draft_pb2.DraftResponse
        async for data in call:
            answer = kind.FromString(data)
            answered.set()
            name = answer.WhichOneof("answer") or ""
            self.answers[name] += 1
            if name in ("verdict", "proposal"):
                handle = getattr(answer, name).handle
                known = self.mischief.handles
                known.append(handle)
                del known[:-50]


async def _undisturbed(cluster: Cluster) -> list[list[int]]:
    return [(await cluster.generate(request)).token_ids for request in _requests()]


def _requests() -> list[generation_pb2.GenerateRequest]:
    return [
        token_request(
            [1 + number, 2, 3],
            max_new_tokens=40,
            sampling=sampling,
            speculation=generation_pb2.SpeculationParams(draft_length=3, branches=2),
        )
        for sampling in SAMPLINGS
        for number in range(3)
    ]


async def _tend(cluster: Cluster, expected: list[list[int]], over: asyncio.Event) -> int:
    """Honest generations until the attacks are over; how many there were."""
    count = 0
    while not over.is_set():
        for request, right in zip(_requests(), expected, strict=True):
            output = await cluster.generate(request)
            assert output.gapless
            assert output.token_ids == right
            count += 1
    return count


async def _leak(server: WorkerServer, mischief: Mischief) -> None:
    """Tells the hostile callers which states honest ones have: their scope is another one."""
    replica_id = server.runtime.description.replica_id
    while True:
        names = await server.runtime.on_model_thread(_pinned_by_others)
        mischief.handles += [
            common_pb2.KvHandle(replica_id=replica_id, handle_id=name) for name in names
        ]
        await asyncio.sleep(0.02)


def _pinned_by_others(handles: HandleTable) -> list[str]:
    states = handles._states.items()
    return [name for name, state in states if state.pinned and state.scope not in SCOPES]


async def _settled(server: WorkerServer, holds: Callable[[], bool]) -> None:
    """The worker is healthy and has let go of everything."""
    async with open_channel(server.rpc.address) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    status = model_pb2.ModelServiceGetStatusResponse()
    for _ in range(500):
        status = await server.runtime.status()
        busy = status.open_streams, status.handles_in_use, status.kv_blocks_in_use
        if busy == (0, 0, 0) and status.queue_depth == 0 and holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError((status, len(asyncio.all_tasks()), threading.active_count()))


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize(
    "messages", [pytest.param(2_000, id="2000"), pytest.param(100_000, marks=pytest.mark.slow)]
)
async def test_hostile_callers_disturb_nobody(messages: int) -> None:
    model = {"vocabulary_size": VOCABULARY_SIZE, "context_length": CONTEXT_LENGTH}
    plans = [WorkerPlan(tiny_model(**model)) for _ in range(2)]
    async with running_cluster(*plans, draft_timeout_ms=60_000) as cluster:
        expected = await _undisturbed(cluster)
        assert cluster.draft is not None
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        resident = 0
        for half in range(2):
            over = asyncio.Event()
            tending = asyncio.create_task(_tend(cluster, expected, over))
            async with (
                open_channel(cluster.target.rpc.address) as target,
                open_channel(cluster.draft.rpc.address) as draft,
            ):
                attacks = [
                    Attack(channel, path, Mischief(Random(half + 2 * place)), messages // 2)
                    for place, (channel, path) in enumerate(((target, VERIFY), (draft, DRAFT)))
                ]
                leaks = [
                    asyncio.create_task(_leak(server, attack.mischief))
                    for server, attack in zip((cluster.target, cluster.draft), attacks, strict=True)
                ]
                await asyncio.gather(*(attack.run() for attack in attacks))
                for leak in leaks:
                    leak.cancel()
                await asyncio.gather(*leaks, return_exceptions=True)
            over.set()
            assert await tending > 0
            for attack in attacks:
                print(attack)
                assert not attack.details, attack.details[:5]
                # They got through to the model, and were refused in more than one way.
                assert attack.answers["verdict"] + attack.answers["proposal"] > messages / 50
                assert attack.ends[StatusCode.INVALID_ARGUMENT] > messages / 50
            grown = _resident_bytes() - resident
            resident = _resident_bytes()
        for server in (cluster.target, cluster.draft):
            await _settled(
                server,
                lambda: (
                    len(asyncio.all_tasks()) <= tasks and threading.active_count() <= threads + 2
                ),
            )
        assert await _undisturbed(cluster) == expected
    assert grown < GROWTH_BYTES
