"""Streams that break at any moment, and forwards that fail: all blocks come back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import torch
from grpc import StatusCode, aio

from outrider.engine.model import Chunk, Model
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc
from target_service.decoding_run import LONGEST_RUN

SIZE = 8
PROMPT = [1, 2, 3]
LONG = [place % SIZE for place in range(2000)]
TABLE = random_table(seed=1)
SAMPLED = common_pb2.SamplingParams(seed=5)
DRAFTS = [common_pb2.DraftToken(token_id=1, point_mass=common_pb2.PointMass())] * 4


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[aio.Channel]:
    server = await start_target(WorkerPlan(model, lease_s=0.2))
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def opened(channel: aio.Channel) -> VerifyStream:
    return await open_verify(channel, sampling=SAMPLED, prompt_length=len(PROMPT))


async def load(channel: aio.Channel) -> model_pb2.ModelServiceGetStatusResponse:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


async def until_empty(channel: aio.Channel) -> None:
    """Returns once nobody holds a block, a handle or a place in the queue."""
    async with asyncio.timeout(60):
        while True:
            now = await load(channel)
            held = now.kv_blocks_in_use + now.handles_in_use + now.queue_depth + now.open_streams
            if not held:
                return
            await asyncio.sleep(0.01)


class SlowTable(ScriptedModel):
    """A table model that takes a time for each token it reads, and counts what it was asked."""

    def __init__(self, *, blocks: int = 4096) -> None:
        super().__init__(
            lambda ids: TABLE[ids[-2] if len(ids) > 1 else 0, ids[-1]],
            vocabulary_size=SIZE,
            row_time_s=0.001,
            step_time_s=0.01,
            blocks=blocks,
        )


async def reached(model: ScriptedModel, forwards: int) -> None:
    async with asyncio.timeout(60):
        while model.forwards < forwards:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_a_stream_cancelled_in_its_prefill_stops_it() -> None:
    model = SlowTable()
    async with serving(model) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, LONG))
        await reached(model, 1)
        stream.call.cancel()
        await until_empty(channel)
        assert model.tokens < len(LONG)


async def test_a_stream_cancelled_in_line_for_room_leaves_the_line() -> None:
    model = SlowTable(blocks=4)
    async with serving(model) as channel:
        holder = await opened(channel)
        await holder.ask(verify_round(1, LONG[:50]))
        waiting = await opened(channel)
        await waiting.send(verify_round(1, LONG[1:31]))
        async with asyncio.timeout(60):
            while (await load(channel)).queue_depth == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        waiting.call.cancel()
        async with asyncio.timeout(60):
            while (await load(channel)).queue_depth:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert (await load(channel)).kv_blocks_in_use == 4
        assert (await holder.ask(verify_round(2, LONG[:51], base=50))).HasField("verdict")
        await holder.half_close()
        await until_empty(channel)


async def test_streams_cancelled_in_their_verification_disturb_no_other() -> None:
    model = SlowTable()
    async with serving(model) as channel:
        steady = await opened(channel)
        expected = [
            (await steady.ask(verify_round(number, PROMPT, drafts=DRAFTS))).verdict
            for number in (1, 2)
        ]
        assert expected[0].output_token_ids == expected[1].output_token_ids
        for number in range(3, 13):
            broken = await opened(channel)
            await broken.send(verify_round(1, PROMPT, drafts=DRAFTS))
            asked = asyncio.create_task(steady.ask(verify_round(number, PROMPT, drafts=DRAFTS)))
            await asyncio.sleep(0.002 * (number % 5))
            broken.call.cancel()
            verdict = (await asked).verdict
            assert verdict.output_token_ids == expected[0].output_token_ids
        await steady.half_close()
        await until_empty(channel)


async def test_a_stream_that_is_not_read_and_then_cancelled_stops_its_run() -> None:
    model = TableModel(TABLE, step_time_s=0.002)
    async with serving(model) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=4000))
        await reached(model, 100)
        stream.call.cancel()
        await until_empty(channel)
        forwards = model.forwards
        await asyncio.sleep(0.05)
        assert model.forwards == forwards < LONGEST_RUN


class FailingModel(TableModel):
    """Its next forward fails once it is armed."""

    armed = False

    def forward(self, chunks: Sequence[Chunk]) -> list[torch.Tensor]:
        if self.armed:
            self.armed = False
            raise RuntimeError("as a kernel would")
        return super().forward(chunks)


async def test_a_forward_that_fails_ends_the_rounds_in_it_and_the_worker_goes_on() -> None:
    model = FailingModel(TABLE, step_time_s=0.02)
    async with serving(model) as channel:
        cold = await opened(channel)
        expected = (await cold.ask(verify_round(1, PROMPT))).verdict.output_token_ids
        await cold.half_close()
        streams = [await opened(channel) for _ in range(3)]
        for number, stream in enumerate(streams):
            await stream.send(verify_round(1, [number, 2, 3], decode=100))
            await stream.read()
        model.armed = True
        for stream in streams:
            with pytest.raises(aio.AioRpcError) as caught:
                while True:
                    await stream.read()
            error = remote_error(caught.value)
            assert (error.code, error.reason) == (StatusCode.INTERNAL, "INTERNAL")
            assert "kernel" not in error.message
        again = await opened(channel)
        verdict = (await again.ask(verify_round(1, PROMPT))).verdict
        assert verdict.output_token_ids == expected
        await again.half_close()
        await until_empty(channel)


async def test_logits_that_are_no_numbers_end_one_run_and_free_its_blocks() -> None:
    def logits(token_ids: Sequence[int]) -> list[float]:
        row: list[float] = TABLE[token_ids[-2], token_ids[-1]].tolist()
        if token_ids[0] == 7 and len(token_ids) > 20:
            row[4] = math.nan
        return row

    model = ScriptedModel(logits, vocabulary_size=SIZE, step_time_s=0.005)
    async with serving(model) as channel:
        bad, good = await opened(channel), await opened(channel)
        await bad.send(verify_round(1, [7, 2, 3], decode=100))
        await good.send(verify_round(1, PROMPT, decode=60))
        with pytest.raises(aio.AioRpcError) as caught:
            while True:
                await bad.read()
        assert remote_error(caught.value).reason == "NUMERICAL_FAILURE"
        answers = [await good.read() for _ in range(61)]
        assert answers[-1].verdict.done
        await good.half_close()
        await until_empty(channel)
