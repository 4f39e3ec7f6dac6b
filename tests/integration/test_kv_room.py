"""Pools that are too small for everybody: who waits, who is refused, who starts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode, aio

from outrider.engine.loop_options import LoopOptions
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.testing.cluster import WorkerPlan, running_cluster, start_target, token_request
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_models import DRAFT_SEED, tiny_model
from outrider.v1 import common_pb2, generation_pb2, model_pb2, model_pb2_grpc

SIZE = 8
BLOCK = 16
SAMPLED = common_pb2.SamplingParams(seed=9, top_p=0.95)
GREEDY = common_pb2.SamplingParams(seed=9, temperature=0)


def table(blocks: int, step_time_s: float = 0.0) -> TableModel:
    return TableModel(random_table(seed=1), blocks=blocks, step_time_s=step_time_s)


@asynccontextmanager
async def serving(plan: WorkerPlan) -> AsyncIterator[aio.Channel]:
    server = await start_target(plan)
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def opened(channel: aio.Channel, length: int) -> VerifyStream:
    return await open_verify(channel, sampling=SAMPLED, prompt_length=length)


async def load(channel: aio.Channel) -> model_pb2.ModelServiceGetStatusResponse:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


async def until_waiting(channel: aio.Channel, count: int) -> None:
    """Returns once that many rounds wait for their first forward."""
    async with asyncio.timeout(60):
        while (await load(channel)).queue_depth != count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def prompt(length: int, first: int = 1) -> list[int]:
    return [first, *(place % SIZE for place in range(1, length))]


def request(
    token_ids: list[int], new: int, sampling: common_pb2.SamplingParams, draft_length: int = 0
) -> generation_pb2.GenerateRequest:
    return token_request(
        token_ids,
        max_new_tokens=new,
        sampling=sampling,
        speculation=generation_pb2.SpeculationParams(draft_length=draft_length),
    )


async def test_the_context_is_never_longer_than_the_pool() -> None:
    async with serving(WorkerPlan(table(blocks=4))) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        model = await stub.GetModel(model_pb2.GetModelRequest())
        assert model.context_length == 4 * BLOCK
        stream = await open_verify(channel, sampling=SAMPLED, prompt_length=60)
        with pytest.raises(aio.AioRpcError) as caught:
            await stream.ask(verify_round(1, prompt(65)))
        error = remote_error(caught.value)
        assert (error.code, error.metadata["field"]) == (StatusCode.OUT_OF_RANGE, "round")
        assert "at most 64" in error.metadata["allowed"]


async def test_a_request_beyond_the_pool_is_refused_at_once_and_disturbs_nobody() -> None:
    async with running_cluster(WorkerPlan(table(4, step_time_s=0.005)), None) as cluster:
        expected = (await cluster.generate(request(prompt(10), 40, SAMPLED))).token_ids
        running = asyncio.create_task(cluster.generate(request(prompt(10), 40, SAMPLED)))
        await asyncio.sleep(0.02)
        for asked, field in (
            (request(prompt(10), 60, SAMPLED), "max_new_tokens"),
            (request(prompt(70), 1, SAMPLED), "prompt"),
        ):
            with pytest.raises(aio.AioRpcError) as caught:
                await cluster.generate(asked)
            error = remote_error(caught.value)
            assert error.code == StatusCode.OUT_OF_RANGE
            assert error.metadata["field"] == field
            assert error.metadata["allowed"]
        assert not running.done()
        assert (await running).token_ids == expected


async def test_a_round_that_waits_too_long_for_room_is_told_when_to_come_again() -> None:
    options = LoopOptions(admission_wait_s=0.2)
    async with serving(WorkerPlan(table(4), options=options)) as channel:
        holder = await opened(channel, 50)
        await holder.ask(verify_round(1, prompt(50)))
        late = await opened(channel, 20)
        with pytest.raises(aio.AioRpcError) as caught:
            await late.ask(verify_round(1, prompt(20, first=2)))
        error = remote_error(caught.value)
        assert error.code == StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_s
        # It had no part in anybody's state.
        again = await holder.ask(verify_round(2, [*prompt(50), 3], base=50))
        assert again.HasField("verdict")


async def test_a_line_that_is_full_refuses_the_last_to_come() -> None:
    options = LoopOptions(admission_queue=2, admission_wait_s=30)
    async with serving(WorkerPlan(table(4), options=options)) as channel:
        holder = await opened(channel, 50)
        await holder.ask(verify_round(1, prompt(50)))
        waiting = []
        for number in range(2):
            stream = await opened(channel, 20)
            await stream.send(verify_round(1, prompt(20, first=number)))
            await until_waiting(channel, number + 1)
            waiting.append(stream)
        refused = await opened(channel, 20)
        with pytest.raises(aio.AioRpcError) as caught:
            await refused.ask(verify_round(1, prompt(20, first=7)))
        error = remote_error(caught.value)
        assert error.code == StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_s
        await holder.half_close()
        for stream in waiting:
            answer = await stream.read()
            while answer.HasField("progress"):
                answer = await stream.read()
            assert answer.HasField("verdict")
            await stream.half_close()
        assert (await load(channel)).kv_blocks_in_use == 0


async def test_the_callers_are_told_too() -> None:
    plan = WorkerPlan(table(4, step_time_s=0.02), options=LoopOptions(admission_wait_s=0.1))
    async with running_cluster(plan, None) as cluster:
        running = asyncio.create_task(cluster.generate(request(prompt(40), 20, SAMPLED)))
        await asyncio.sleep(0.1)
        with pytest.raises(aio.AioRpcError) as caught:
            await cluster.generate(request(prompt(40, first=2), 2, SAMPLED))
        error = remote_error(caught.value)
        assert error.code == StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_s
        assert len((await running).token_ids) == 20


@pytest.mark.parametrize(
    ("sampling", "draft_length"),
    [
        pytest.param(GREEDY, 0, id="greedy", marks=pytest.mark.slow),
        pytest.param(SAMPLED, 0, id="seeded"),
        pytest.param(GREEDY, 3, id="greedy drafted"),
        pytest.param(SAMPLED, 3, id="seeded drafted", marks=pytest.mark.slow),
    ],
)
async def test_generations_that_lose_their_state_give_the_same_bytes_in_the_end(
    sampling: common_pb2.SamplingParams, draft_length: int
) -> None:
    """Six generations of up to 5 blocks each, in a pool of 7."""
    draft = WorkerPlan(tiny_model(seed=DRAFT_SEED)) if draft_length else None
    requests = [
        request(prompt(20 + 3 * number, first=number), 40, sampling, draft_length)
        for number in range(6)
    ]

    async def run(plan: WorkerPlan, most_at_once: int) -> tuple[list[list[int]], Any]:
        gate = asyncio.Semaphore(most_at_once)

        async with running_cluster(plan, draft, draft_timeout_ms=60_000) as cluster:

            async def one(asked: generation_pb2.GenerateRequest) -> list[int]:
                async with gate:
                    output = await cluster.generate(asked)
                assert output.gapless
                assert not output.summary.speculation.draft_missed_rounds
                return output.token_ids

            outputs = await asyncio.gather(*(one(asked) for asked in requests))
            return outputs, await cluster.target.runtime.status()

    expected, roomy = await run(WorkerPlan(tiny_model()), 1)
    assert roomy.preemptions == 0
    outputs, narrow = await run(WorkerPlan(tiny_model(blocks=7)), 6)
    assert outputs == expected
    assert narrow.preemptions > 0
    assert narrow.kv_blocks_in_use == 0


async def test_a_generation_under_way_is_never_refused_for_want_of_room() -> None:
    """Whoever has lost its state waits as long as it takes; only new ones are sent away."""
    plan = WorkerPlan(table(4, step_time_s=0.004), options=LoopOptions(admission_wait_s=0.05))
    async with running_cluster(plan, None) as cluster:

        async def count(first: int) -> int:
            call = cluster.stub.Generate(request(prompt(10, first), 45, SAMPLED))
            return len([response async for response in call if response.HasField("chunk")])

        # One block each at first, of the four that each needs in the end.
        counts = []
        for first in range(3):
            counts.append(asyncio.create_task(count(first)))
            await asyncio.sleep(0.02)
        assert await asyncio.gather(*counts) == [45] * 3
        now = await cluster.target.runtime.status()
    assert now.preemptions > 0
