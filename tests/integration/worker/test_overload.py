"""Workers that are asked for more than they have: bounded, refused early, and fair to the rest."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.testing.cluster import WorkerPlan, start_target, start_worker
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import draft_round, open_draft, open_verify, verify_round
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, target_pb2
from outrider.worker import slot
from outrider.worker.server import WorkerServer
from target_service.decoding_run import LONGEST_RUN
from target_service.kind import target_kind

PROMPT = [1, 2, 3]
SAMPLED = common_pb2.SamplingParams(seed=5)
MOST = 2**32 - 1
MOST_FORWARDS = 10
"""While one is asked of its health. Generous: the bar is 0.1 s, on a machine with nothing else to
do, of forwards that take 5 to 10 ms."""
KINDS: dict[str, Any] = {
    "target": target_kind(max_draft_length=16),
    "draft": draft_kind(CandidateCut()),
}

Server = WorkerServer[Any, Any]


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[aio.Channel]:
    try:
        async with open_channel(server.rpc.address) as channel:
            yield channel
    finally:
        await server.stop(0)


async def opened(channel: aio.Channel, role: str) -> Any:
    if role == "target":
        return await open_verify(channel, sampling=SAMPLED, prompt_length=len(PROMPT))
    return await open_draft(channel, derived_seed=5, prompt_length=len(PROMPT))


def one_round(role: str, number: int) -> Any:
    if role == "target":
        return verify_round(number, PROMPT)
    return draft_round(number, PROMPT, until=len(PROMPT) + 2)


@pytest.mark.parametrize("role", KINDS)
async def test_without_a_handle_left_a_stream_is_refused_at_once(role: str) -> None:
    server = await start_worker(
        KINDS[role], WorkerPlan(TableModel(random_table(seed=1)), max_handles=3)
    )
    async with connected(server) as channel:
        streams = [await opened(channel, role) for _ in range(3)]
        for stream in streams:
            await stream.ask(one_round(role, 1))
        late = await opened(channel, role)
        with pytest.raises(aio.AioRpcError) as caught:
            async with asyncio.timeout(60):
                await late.read()
        error = remote_error(caught.value)
        assert error.code == StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_s
        await streams.pop().half_close()
        late = await opened(channel, role)
        assert not (await late.ask(one_round(role, 1))).HasField("state_lost")


async def test_no_more_streams_than_may_be_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "MOST_STREAMS", 2)
    server = await start_target(WorkerPlan(TableModel(random_table(seed=1))))
    async with connected(server) as channel:
        # They hold nothing yet: not even an Open has come.
        for _ in range(2):
            await channel.stream_stream("/outrider.v1.TargetService/Verify")().wait_for_connection()
        late = await opened(channel, "target")
        with pytest.raises(aio.AioRpcError) as caught:
            await late.read()
        error = remote_error(caught.value)
        assert error.code == StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_s


async def test_a_caller_that_does_not_read_holds_up_nobody_and_costs_little() -> None:
    """Its runs end by themselves; all its tokens are there once it reads."""
    server = await start_target(WorkerPlan(TableModel(random_table(seed=1))))
    async with connected(server) as channel:
        alone = await opened(channel, "target")
        expected: list[int] = []
        await alone.send(verify_round(1, PROMPT, decode=LONGEST_RUN))
        while not (verdict := (await alone.read()).verdict).done:
            expected += verdict.output_token_ids
        idle = [await opened(channel, "target") for _ in range(4)]
        for stream in idle:
            await stream.send(verify_round(1, PROMPT, decode=MOST))
        rounds = await _settled_rounds(server)
        assert rounds <= (len(idle) + 1) * (LONGEST_RUN + 1)
        async with asyncio.timeout(60):
            await (await opened(channel, "target")).ask(verify_round(1, PROMPT))
        for stream in idle:
            found: list[int] = []
            while not (verdict := (await stream.read()).verdict).done:
                found += verdict.output_token_ids
            assert found == expected
            await stream.half_close()


async def test_a_run_that_is_prolonged_goes_on_for_as_long_as_its_caller_reads() -> None:
    model = TableModel(random_table(seed=1), step_time_s=0.002)
    server = await start_target(WorkerPlan(model))
    async with connected(server) as channel:
        stream = await opened(channel, "target")
        await stream.send(verify_round(1, PROMPT, decode=MOST))
        token_ids, number, read = list(PROMPT), 1, 0
        while len(token_ids) < 3 * LONGEST_RUN:
            answer: target_pb2.VerifyResponse = await stream.read()
            if answer.HasField("progress"):
                continue
            assert not answer.verdict.done
            assert answer.verdict.handle.length == len(token_ids)
            token_ids += answer.verdict.output_token_ids
            read += 1
            if read % 100 == 0:
                number += 1
                top_up = verify_round(number, token_ids, base=len(token_ids) - 1, decode=MOST)
                await stream.send(top_up)
        assert number > 5


async def _settled_rounds(server: Server) -> int:
    """How many rounds were answered once nothing is under way any more."""
    before = -1
    while (now := server.runtime.counts.rounds) != before or server.runtime.loop.queue_depth:
        before = now
        await asyncio.sleep(0.3)
    return now


@pytest.mark.slow
@pytest.mark.parametrize("role", KINDS)
async def test_two_thousand_streams_at_once(role: str) -> None:
    model = TableModel(random_table(seed=1), blocks=3000)
    server = await start_worker(KINDS[role], WorkerPlan(model, max_handles=2500))
    async with connected(server) as channel:

        async def one() -> str:
            stream = await opened(channel, role)
            answer = await stream.ask(one_round(role, 1))
            await stream.half_close()
            return str(answer.WhichOneof("answer"))

        began = time.monotonic()
        found = await asyncio.gather(*(one() for _ in range(2000)))
        print(f"\n2 000 {role} streams: {time.monotonic() - began:.1f} s")
        assert set(found) == {"verdict" if role == "target" else "proposal"}
        status = await server.runtime.status()
        assert (status.open_streams, status.handles_in_use, status.kv_blocks_in_use) == (0, 0, 0)


def busy_model() -> Model:
    return tiny_model(vocabulary_size=64, context_length=512)


@pytest.mark.parametrize("engine", ["thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("role", KINDS)
async def test_health_answers_while_the_model_is_never_idle(role: str, engine: str) -> None:
    kind = KINDS[role]
    if engine == "thread":
        server = await start_worker(kind, WorkerPlan(busy_model()))
    else:
        server = await start_worker_process(kind, busy_model)
    async with connected(server) as channel, open_channel(server.rpc.address) as prober:
        working = [asyncio.create_task(_work(channel, role)) for _ in range(16)]
        await asyncio.sleep(0.5)
        check = health_pb2_grpc.HealthStub(prober).Check
        times: list[float] = []
        meanwhile: list[int] = []
        loop, began = server.runtime.loop, time.monotonic()
        before = loop.forwards
        for _ in range(40):
            asked, forwards = time.monotonic(), loop.forwards
            answer = await check(health_pb2.HealthCheckRequest())
            times.append(time.monotonic() - asked)
            meanwhile.append(loop.forwards - forwards)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            await asyncio.sleep(0.02)
        total = loop.forwards - before
        rate = total / (time.monotonic() - began)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    print(
        f"\n{role} on a {engine}: median {1000 * statistics.median(times):.1f} ms, "
        f"longest {1000 * max(times):.1f} ms, {rate:.0f} forwards/s"
    )
    assert total > 10
    assert max(meanwhile) <= MOST_FORWARDS


async def _work(channel: aio.Channel, role: str) -> None:
    """Rounds one after the other, for as long as it is let."""
    number = 0
    stream = await opened(channel, role)
    while True:
        number += 1
        if role == "target":
            await stream.send(verify_round(number, PROMPT, decode=60))
            while not (await stream.read()).verdict.done:
                pass
        else:
            await stream.send(draft_round(number, [*PROMPT, number % 60], until=30))
            while not (await stream.read()).proposal.done:
                pass
