"""A target that decodes alone: its tokens, its ends, and what the answers tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
import torch
from grpc import aio

from outrider.engine.model import Model
from outrider.testing.scripted import ScriptedModel
from outrider.testing.streams import verify_round
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc
from tests.integration.runs import (
    GREEDY,
    SAMPLED,
    STEP_S,
    one_by_one,
    opened,
    read,
    read_run,
    slow,
    table,
    tokens,
)
from tests.integration.verify_streams import (
    PROMPT,
    SIZE,
    serving,
    status,
    tiny,
)


@pytest.mark.parametrize("sampling", [SAMPLED, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("make", [table, tiny])
async def test_a_run_gives_the_tokens_of_single_rounds(
    make: Callable[[], Model], sampling: common_pb2.SamplingParams
) -> None:
    async with serving(make()) as channel:
        expected = await one_by_one(channel, 40, sampling=sampling)
        stream = await opened(channel, sampling=sampling)
        await stream.send(verify_round(7, PROMPT, decode=39))
        answers = await read_run(stream)
        assert tokens(answers) == expected
        assert {answer.round_number for answer in answers} == {7}
        assert answers[0].verdict.handle.length == len(PROMPT)
        token_ids = [*PROMPT, *expected]
        following = await stream.ask(verify_round(8, token_ids, base=len(token_ids) - 1))
        assert following.HasField("verdict")
        assert (await status(channel)).rounds == 81


async def test_a_target_says_that_it_has_runs() -> None:
    async with serving(table()) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        model = await stub.GetModel(model_pb2.GetModelRequest())
    assert list(model.features) == ["coupled", "decode_tokens"]


async def test_a_half_close_ends_a_run() -> None:
    async with serving(slow()) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=1000))
        await read(stream)
        await stream.call.done_writing()
        run = await read_run(stream)
        assert len(run) < 20
        with pytest.raises(EOFError):
            await stream.read()
        now = await status(channel)
        assert (now.handles_in_use, now.kv_blocks_in_use, now.open_streams) == (0, 0, 0)


async def test_a_run_that_has_not_begun_when_its_stream_ends_is_short() -> None:
    async with serving(table(step_time_s=0.1)) as channel:
        busy, stream = await opened(channel), await opened(channel)
        await busy.send(verify_round(1, PROMPT, decode=1))
        await asyncio.sleep(0.03)
        await stream.send(verify_round(1, PROMPT, decode=1000))
        await stream.call.done_writing()
        assert len(await read_run(stream)) < 5


async def test_a_run_that_begins_after_the_end_of_its_stream_is_short() -> None:
    async with serving(slow()) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=1000))
        await read(stream)
        await stream.send(verify_round(2, [*PROMPT, 0, 0], base=1, decode=1000))
        await stream.call.done_writing()
        await read_run(stream)
        answers = await read_run(stream)
        assert answers[0].round_number == 2
        assert len(answers) < 20


async def test_a_cancelled_run_leaves_nothing() -> None:
    model = slow()
    async with serving(model) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=1000))
        await read(stream)
        stream.call.cancel()
        async with asyncio.timeout(60):
            while (await status(channel)).kv_blocks_in_use:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        forwards = model.forwards
        await asyncio.sleep(5 * STEP_S)
        assert model.forwards == forwards < 100


async def test_a_stop_id_ends_a_run() -> None:
    async with serving(table()) as channel:
        expected = await one_by_one(channel, 60)
        stop = expected[25]
        sampling = common_pb2.SamplingParams(stop_token_ids=[stop])
        sampling.MergeFrom(SAMPLED)
        stream = await opened(channel, sampling=sampling)
        await stream.send(verify_round(1, PROMPT, decode=59))
        assert tokens(await read_run(stream)) == expected[: expected.index(stop) + 1]


async def test_a_full_context_ends_a_run() -> None:
    async with serving(table(context_length=16)) as channel:
        expected = await one_by_one(channel, 14)
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=2**32 - 1))
        assert tokens(await read_run(stream)) == expected
        assert len(PROMPT) + len(expected) == 17


async def test_runs_of_many_streams_share_steps() -> None:
    model = slow()
    async with serving(model) as channel:

        async def run(seed: int) -> list[int]:
            stream = await opened(channel, sampling=common_pb2.SamplingParams(seed=seed))
            await stream.send(verify_round(1, PROMPT, decode=39))
            answers = await read_run(stream)
            await stream.half_close()
            return [answer.verdict.output_token_ids[0] for answer in answers]

        alone = [await run(seed) for seed in range(4)]
        before = model.forwards
        assert await asyncio.gather(*(run(seed) for seed in range(4))) == alone
        assert model.forwards - before < 80


async def test_a_number_that_is_none_ends_the_stream_after_the_answers_before() -> None:
    def logits(token_ids: Sequence[int]) -> torch.Tensor:
        row = torch.zeros(SIZE, dtype=torch.float64)
        row[0] = float("nan") if len(token_ids) == 8 else 1.0
        return row

    async with serving(ScriptedModel(logits, vocabulary_size=SIZE)) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=20))
        answers = [await read(stream) for _ in range(5)]
        assert not any(answer.verdict.done for answer in answers)
        with pytest.raises(aio.AioRpcError, match="NaN"):
            await stream.read()


async def test_answers_tell_the_price_of_a_row_and_the_depth_of_the_queue() -> None:
    model = ScriptedModel(
        lambda _: [0.0] * SIZE, vocabulary_size=SIZE, step_time_s=0.002, row_time_s=0.0005
    )
    async with serving(model) as channel:
        streams = [await opened(channel) for _ in range(6)]
        for number in range(1, 31):
            for stream in streams[: 1 + number % 6]:
                await stream.send(verify_round(number, PROMPT))
            for stream in streams[: 1 + number % 6]:
                last = (await read(stream)).verdict
        now = await status(channel)
    # A row takes 0.5 ms, a step for n streams 2 + 1.5 n, and it gives n tokens: 0.14 to 0.27.
    assert 0.05 < last.price < 1.0
    assert last.queue_depth <= len(streams)
    assert now.price == pytest.approx(last.price, rel=0.5)
    assert 1.0 <= now.mean_batch_size <= 6.0
