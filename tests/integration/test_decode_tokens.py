"""Runs of a target that decodes alone, message by message through real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import torch
from grpc import aio

from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc, target_pb2

SIZE = 8
PROMPT = [1, 2, 3]
STEP_S = 0.01
SAMPLED = common_pb2.SamplingParams(seed=5, top_p=0.95, presence_penalty=0.4)
GREEDY = common_pb2.SamplingParams(seed=5, temperature=0)


def table(**options: Any) -> TableModel:
    return TableModel(random_table(seed=1), **options)


def slow() -> TableModel:
    return table(step_time_s=STEP_S)


def tiny() -> Model:
    return tiny_model(vocabulary_size=SIZE)


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[aio.Channel]:
    server = await start_target(WorkerPlan(model))
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def opened(channel: aio.Channel, **fields: Any) -> VerifyStream:
    return await open_verify(
        channel, **{"sampling": SAMPLED, "prompt_length": len(PROMPT), **fields}
    )


async def read(stream: VerifyStream) -> target_pb2.VerifyResponse:
    """The next answer but progress."""
    while (answer := await stream.read()).HasField("progress"):
        pass
    return answer


async def read_run(stream: VerifyStream) -> list[target_pb2.VerifyResponse]:
    """Answers up to the next that is done."""
    answers = [await read(stream)]
    while not answers[-1].verdict.done:
        answers.append(await read(stream))
    return answers


def tokens(answers: Sequence[target_pb2.VerifyResponse]) -> list[int]:
    """The output of a run, whose answers come token by token and in order."""
    for before, after in pairwise(answers):
        assert after.verdict.handle.length == before.verdict.handle.length + 1
    for answer in answers:
        assert len(answer.verdict.output_token_ids) == 1
        assert answer.verdict.timings.batch_size == 1
    return [answer.verdict.output_token_ids[0] for answer in answers]


async def one_by_one(channel: aio.Channel, count: int, **fields: Any) -> list[int]:
    """What single rounds give."""
    stream = await opened(channel, **fields)
    token_ids = list(PROMPT)
    for number in range(1, count + 1):
        base = len(token_ids) - 1 if number > 1 else 0
        answer = await stream.ask(verify_round(number, token_ids, base=base))
        assert answer.verdict.done
        token_ids += answer.verdict.output_token_ids
    await stream.half_close()
    return token_ids[len(PROMPT) :]


async def load(channel: aio.Channel) -> model_pb2.ModelServiceGetStatusResponse:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


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
        assert (await load(channel)).rounds == 81


async def test_a_target_says_that_it_has_runs() -> None:
    async with serving(table()) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        model = await stub.GetModel(model_pb2.GetModelRequest())
    assert list(model.features) == ["decode_tokens"]


async def test_a_top_up_raises_the_limit_and_takes_the_answers_over() -> None:
    async with serving(slow()) as channel:
        expected = await one_by_one(channel, 30)
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=9))
        answers = [await read(stream) for _ in range(3)]
        token_ids = [*PROMPT, *tokens(answers)]
        await stream.send(verify_round(2, token_ids, base=len(PROMPT) + 2, decode=26))
        answers += await read_run(stream)
        assert tokens(answers) == expected
        numbers = [answer.round_number for answer in answers]
        assert numbers == sorted(numbers)
        assert set(numbers) == {1, 2}
        assert [answer.verdict.done for answer in answers] == [False] * 29 + [True]


async def test_a_top_up_never_lowers_the_limit() -> None:
    async with serving(slow()) as channel:
        expected = await one_by_one(channel, 20)
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=19))
        first = await read(stream)
        token_ids = [*PROMPT, *first.verdict.output_token_ids]
        await stream.send(verify_round(2, token_ids, base=len(PROMPT), decode=3))
        answers = [first, *await read_run(stream)]
        assert tokens(answers) == expected
        assert answers[-1].round_number == 2


async def test_a_top_up_after_the_end_repeats_from_where_it_begins() -> None:
    async with serving(table()) as channel:
        expected = await one_by_one(channel, 12)
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=5))
        answers = await read_run(stream)
        assert tokens(answers) == expected[:6]
        token_ids = [*PROMPT, *expected[:3]]
        await stream.send(verify_round(2, token_ids, base=len(PROMPT) + 2, decode=8))
        again = await read_run(stream)
        assert tokens(again) == expected[3:12]
        assert again[0].verdict.handle.length == len(token_ids)


@pytest.mark.parametrize(
    "newer",
    [
        verify_round(2, [*PROMPT, 6, 6], base=2),
        verify_round(2, [4, 4, 4], base=1),
        verify_round(
            2,
            [*PROMPT, 6],
            drafts=[common_pb2.DraftToken(token_id=1, point_mass=common_pb2.PointMass())],
        ),
    ],
    ids=["other ids", "other prefix", "draft tokens"],
)
async def test_a_round_that_disagrees_ends_the_run_and_is_worked_on(
    newer: target_pb2.VerifyRequest,
) -> None:
    async with serving(slow()) as channel:
        alone = await opened(channel)
        expected = await alone.ask(verify_round(1, PROMPT))
        expected = await alone.ask(newer)
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT, decode=1000))
        await read(stream)
        await stream.send(newer)
        run = await read_run(stream)
        assert len(run) < 20
        assert {answer.round_number for answer in run} == {1}
        answer = await read(stream)
        assert answer.round_number == 2
        assert answer.WhichOneof("answer") == expected.WhichOneof("answer")
        assert answer.verdict.output_token_ids == expected.verdict.output_token_ids


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
        now = await load(channel)
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
        async with asyncio.timeout(10):
            while (await load(channel)).kv_blocks_in_use:  # noqa: ASYNC110
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
        now = await load(channel)
    # A row takes 0.5 ms, a step for n streams 2 + 1.5 n, and it gives n tokens: 0.14 to 0.27.
    assert 0.05 < last.price < 1.0
    assert last.queue_depth <= len(streams)
    assert now.price == pytest.approx(last.price, rel=0.5)
    assert 1.0 <= now.mean_batch_size <= 6.0
