"""Runs of decoding for tests: a target, a stream, its answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from grpc import aio

from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.v1 import common_pb2, target_pb2
from tests.integration.verify_streams import PROMPT

STEP_S = 0.01

SAMPLED = common_pb2.SamplingParams(seed=5, top_p=0.95, presence_penalty=0.4)

GREEDY = common_pb2.SamplingParams(seed=5, temperature=0)


def table(**options: Any) -> TableModel:
    return TableModel(random_table(seed=1), **options)


def slow() -> TableModel:
    return table(step_time_s=STEP_S)


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
