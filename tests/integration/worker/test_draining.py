"""The end of a worker: it says so at once, lets open streams finish, and takes no new ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.testing.cluster import WorkerPlan, start_worker
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import (
    DraftStream,
    VerifyStream,
    draft_round,
    open_draft,
    open_verify,
    verify_round,
)
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc
from outrider.worker import checks
from outrider.worker.server import WorkerServer
from target_service.kind import target_kind

PROMPT = [1, 2, 3]
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING
KINDS = {
    "target": target_kind(max_draft_length=16),
    "draft": draft_kind(CandidateCut()),
}
Stream = VerifyStream | DraftStream


def build() -> Model:
    return TableModel(random_table(seed=1))


@dataclass
class Draining:
    """A worker, and what a coordinator has of it."""

    role: str
    server: WorkerServer[Any, Any]
    channel: aio.Channel

    async def opened(self, channel: aio.Channel | None = None) -> Stream:
        channel = channel or self.channel
        if self.role == "target":
            sampling = common_pb2.SamplingParams(seed=5)
            return await open_verify(channel, sampling=sampling, prompt_length=len(PROMPT))
        return await open_draft(channel, derived_seed=5, prompt_length=len(PROMPT))

    async def answered(self, stream: Any, number: int) -> bool:
        """Whether a round is worked on; it does not say that it lost the state."""
        if self.role == "target":
            answer = await stream.ask(verify_round(number, PROMPT))
        else:
            answer = await stream.ask(draft_round(number, PROMPT, until=len(PROMPT) + 2))
        return bool(answer.WhichOneof("answer") in ("verdict", "proposal"))

    async def refused(self, channel: aio.Channel | None = None) -> None:
        """A new stream is turned away by name, with a time to come again."""
        with pytest.raises(aio.AioRpcError) as caught:
            await (await self.opened(channel)).read()
        error = remote_error(caught.value)
        assert error.code == StatusCode.UNAVAILABLE
        assert error.reason == "POOL_UNAVAILABLE"
        assert "draining" in str(error)
        assert error.retry_after_s


@asynccontextmanager
async def worker(role: str, engine: str) -> AsyncIterator[Draining]:
    kind: Any = KINDS[role]
    if engine == "thread":
        server = await start_worker(kind, WorkerPlan(build()))
    else:
        server = await start_worker_process(kind, build)
    try:
        async with open_channel(server.rpc.address) as channel:
            yield Draining(role, server, channel)
    finally:
        await server.stop(0)


@pytest.mark.parametrize("engine", ["thread", "process"])
@pytest.mark.parametrize("role", KINDS)
async def test_open_streams_finish_and_new_ones_are_refused(role: str, engine: str) -> None:
    async with worker(role, engine) as one:
        watch = health_pb2_grpc.HealthStub(one.channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        stream = await one.opened()
        assert await one.answered(stream, 1)
        stopping = asyncio.create_task(one.server.stop(200))
        assert (await watch.read()).status == NOT_SERVING
        await one.refused()
        assert await one.answered(stream, 2)
        async with open_channel(one.server.rpc.address) as newcomer:
            # Connections are still taken: whoever asks hears why, and not just nothing.
            await one.refused(newcomer)
            health = health_pb2_grpc.HealthStub(newcomer)
            assert (await health.Check(health_pb2.HealthCheckRequest())).status == NOT_SERVING
            status = model_pb2_grpc.ModelServiceStub(newcomer).GetStatus
            assert (await status(model_pb2.ModelServiceGetStatusRequest())).open_streams == 1
        await stream.half_close()
        await asyncio.wait_for(stopping, 60)


@pytest.mark.parametrize("role", KINDS)
async def test_a_stream_that_goes_on_for_ever_is_cut_off_at_the_end_of_the_grace(role: str) -> None:
    async with worker(role, "thread") as one:
        stream = await one.opened()
        assert await one.answered(stream, 1)
        began = time.monotonic()
        async with asyncio.timeout(60):
            await one.server.stop(0.5)
        assert time.monotonic() - began > 0.4
        with pytest.raises((aio.AioRpcError, EOFError, asyncio.CancelledError)):
            await stream.read()


async def test_streams_that_end_by_an_error_do_not_cut_others_off() -> None:
    """A handler that aborts while the server drains: gRPC's own drain is not always graceful."""
    async with worker("target", "thread") as one:
        stream, bad = await one.opened(), await one.opened()
        assert await one.answered(stream, 1)
        assert await one.answered(bad, 1)
        stopping = asyncio.create_task(one.server.stop(20))
        await asyncio.sleep(0.1)
        with pytest.raises(aio.AioRpcError) as caught:
            await bad.send(verify_round(2, [99_999]))  # type: ignore[arg-type]
            await bad.read()
        assert caught.value.code() == StatusCode.INVALID_ARGUMENT
        await one.refused()
        await asyncio.sleep(0.2)
        for number in range(2, 6):
            assert await one.answered(stream, number)
        await stream.half_close()
        await asyncio.wait_for(stopping, 5)


async def test_a_stream_that_never_says_what_it_is_for_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "FIRST_MESSAGE_S", 0.2)
    async with worker("target", "thread") as one:
        call = one.channel.stream_stream("/outrider.v1.TargetService/Verify")()
        await call.wait_for_connection()
        assert await call.code() == StatusCode.INVALID_ARGUMENT
        assert "within 0.2 s" in (await call.details() or "")
