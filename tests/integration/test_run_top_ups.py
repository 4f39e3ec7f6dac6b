"""Rounds that come during a run: they raise its limit, or end it."""

from __future__ import annotations

import pytest

from outrider.testing.streams import verify_round
from outrider.v1 import common_pb2, target_pb2
from tests.integration.runs import (
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
    serving,
)


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
