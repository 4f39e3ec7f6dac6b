"""SIGTERM under load, and a coordinator killed: who finishes, what is left (FAULTS L5, G9)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.rpc.channel import open_channel
from outrider.testing.fleet import Fleet
from outrider.testing.processes import ServiceProcess
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request
from outrider.testing.watched import Ask, Watched, ask_all, watching

STREAMS = 3
TOKENS = 300
NOTICE_S = 60.0
"""For SIGTERM to be seen by a process that shares its core."""
RELEASE_S = 60.0
"""Twice the limit of a silent pin."""

REQUESTS = [
    tiny_request(number, tokens=TOKENS, seed=number if number % 2 else None)
    for number in range(STREAMS)
]


async def health(process: ServiceProcess) -> str:
    """What it says of itself; GONE when it does not answer."""
    async with open_channel(process.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=NOTICE_S)
        except aio.AioRpcError:
            return "GONE"
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


async def flowing(ask: Ask) -> asyncio.Task[list[Watched]]:
    """All streams, once they have had time to begin."""
    answers = asyncio.create_task(ask_all(ask, REQUESTS, at_once=STREAMS))
    await asyncio.sleep(0.5)
    return answers


async def stopping(process: ServiceProcess) -> asyncio.Task[int]:
    """Its orderly end, once it says NOT_SERVING, which comes before the end of any stream."""
    exit_code = asyncio.create_task(asyncio.to_thread(process.stop))
    deadline = time.monotonic() + NOTICE_S
    while (said := await health(process)) == "SERVING":
        assert time.monotonic() < deadline
    assert said in ("NOT_SERVING", "GONE")
    return exit_code


def assert_whole(answers: list[Watched], calm: list[Watched]) -> None:
    assert not [answer.error for answer in answers if answer.error]
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in calm]


@pytest.mark.slow
async def test_whoever_is_told_to_end_ends_well(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, drafts=1) as fleet:
        async with watching(fleet.addresses[0]) as ask:
            calm = await ask_all(ask, REQUESTS, at_once=STREAMS)
            answers = await flowing(ask)
            exit_code = await stopping(fleet.targets[0].process)
            assert_whole(await answers, calm)
            assert await exit_code == 0
        await asyncio.to_thread(fleet.targets[0].process.start)
        await fleet.usable()
        await a_coordinator_finishes_what_it_has(fleet, calm)
        await a_killed_coordinator_leaves_nothing(fleet)


async def a_coordinator_finishes_what_it_has(fleet: Fleet, calm: list[Watched]) -> None:
    """And takes nothing new."""
    coordinator = fleet.coordinators[0]
    async with watching(fleet.addresses[0]) as ask, watching(fleet.addresses[0]) as ask_late:
        answers = await flowing(ask)
        exit_code = await stopping(coordinator)
        late = await ask_late(REQUESTS[0])
        assert late.error is not None
        assert late.error.code() is grpc.StatusCode.UNAVAILABLE
        assert not answers.done()
        assert_whole(await answers, calm)
        assert await exit_code == 0
    await asyncio.to_thread(coordinator.start)
    await fleet.usable()


async def a_killed_coordinator_leaves_nothing(fleet: Fleet) -> None:
    """Workers free what its generations held."""
    async with watching(fleet.addresses[0]) as ask:
        answers = await flowing(ask)
        held = [await worker.status() for worker in fleet.workers]
        assert sum(status.handles_in_use for status in held) >= STREAMS
        await asyncio.to_thread(fleet.coordinators[0].kill)
        assert all(answer.error for answer in await answers)
    deadline = time.monotonic() + RELEASE_S
    while any([(await worker.status()).handles_in_use for worker in fleet.workers]):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    assert not any([(await worker.status()).kv_blocks_in_use for worker in fleet.workers])
