"""The coordinator's end of a target's stream, against a server that answers by a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from grpc import aio

from coordinator.calls import Peer
from coordinator.target_stream import TargetStream
from outrider.errors import InternalFailure, PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.rpc.channel import open_channel
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc

REPLICA = "the-one"
UNTRACED = common_pb2.TraceContext()
Answers = Sequence[target_pb2.VerifyResponse]


def token(
    number: int, position: int, token_id: int, *, done: bool = False, replica: str = REPLICA
) -> target_pb2.VerifyResponse:
    """One answer of a run."""
    return target_pb2.VerifyResponse(
        round_number=number,
        verdict=target_pb2.Verdict(
            output_token_ids=[token_id],
            handle=common_pb2.KvHandle(replica_id=replica, length=position),
            done=done,
        ),
    )


def lost(number: int, kept: int = 0) -> target_pb2.VerifyResponse:
    return target_pb2.VerifyResponse(
        round_number=number, state_lost=common_pb2.StateLost(kept_length=kept)
    )


class ScriptedTarget(target_pb2_grpc.TargetServiceServicer):
    """Gives the next part of its script for each Round that comes."""

    def __init__(self, script: Sequence[Answers]) -> None:
        self._script = list(script)
        self.rounds: list[target_pb2.VerifyRound] = []

    async def Verify(  # noqa: N802
        self, request_iterator: AsyncIterator[target_pb2.VerifyRequest], context: object
    ) -> AsyncIterator[target_pb2.VerifyResponse]:
        async for request in request_iterator:
            if request.HasField("round"):
                self.rounds.append(request.round)
                for answer in self._script.pop(0):
                    yield answer


@asynccontextmanager
async def session_with(
    *script: Answers, run_credit: int = 8
) -> AsyncIterator[tuple[TargetStream, ScriptedTarget]]:
    target = ScriptedTarget(script)
    server = aio.server()
    target_pb2_grpc.add_TargetServiceServicer_to_server(target, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        session = TargetStream(
            Peer(channel, REPLICA), target_pb2.VerifyOpen(), run_credit=run_credit
        )
        yield session, target
        await session.close()
    await server.stop(None)


async def decode(session: TargetStream, count: int) -> list[int]:
    """`count` tokens after a prompt of three."""
    prefix = TokenPrefix([1, 2, 3])
    for _ in range(count):
        further = 3 + count - len(prefix) - 1
        verdict = await session.verify(prefix, trace=UNTRACED, further=further)
        prefix.extend(verdict.output_token_ids)
    return list(prefix.token_ids[3:])


async def test_a_run_is_asked_for_once() -> None:
    run = [token(1, 3 + n, 10 + n, done=n == 5) for n in range(6)]
    async with session_with(run) as (session, target):
        assert await decode(session, 6) == [10, 11, 12, 13, 14, 15]
    assert [message.decode_tokens for message in target.rounds] == [5]


async def test_credit_is_topped_up_when_it_is_half_used() -> None:
    script = (
        [token(1, 3 + n, 10 + n) for n in range(9)],
        # The run went on under the new number.
        [token(2, 12 + n, 19 + n) for n in range(5)],
        [token(3, 17 + n, 24 + n, done=n == 2) for n in range(3)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 17) == list(range(10, 27))
    bases = [message.base_length for message in target.rounds]
    assert [message.decode_tokens for message in target.rounds] == [8, 8, 6]
    assert bases == [0, 7, 12]
    digests = [message.prefix_digest for message in target.rounds]
    prefix = TokenPrefix([1, 2, 3, *range(10, 27)])
    assert digests == [prefix.digest(base) for base in bases]


async def test_repeats_of_a_top_up_that_came_too_late_are_passed_over() -> None:
    script = (
        [token(1, 3 + n, 10 + n, done=n == 8) for n in range(9)],
        [token(2, 8 + n, 15 + n, done=n == 7) for n in range(8)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 13) == list(range(10, 23))
    assert len(target.rounds) == 2


async def test_nothing_is_taken_of_a_run_that_decided_a_repeat_otherwise() -> None:
    script = (
        [token(1, 3 + n, 10 + n, done=n == 8) for n in range(9)],
        # Too late, and begun anew: after other ids than those that are committed.
        [token(2, 8, 15), token(2, 9, 99), *(token(2, 10 + n, 100 + n) for n in range(5))],
        [token(3, 12 + n, 19 + n, done=n == 3) for n in range(4)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 13) == list(range(10, 23))
    last = target.rounds[-1]
    assert (last.number, last.base_length) == (3, 9)
    assert list(last.committed_token_ids) == [16, 17, 18]


async def test_state_lost_in_a_run_is_replayed_from_what_is_kept() -> None:
    script = (
        [token(1, 3, 10), token(1, 4, 11), lost(1, kept=0)],
        [token(2, 5 + n, 12 + n, done=n == 3) for n in range(4)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 6) == list(range(10, 16))
        assert session.replays == 1
    replay = target.rounds[1]
    assert (replay.base_length, list(replay.committed_token_ids)) == (0, [1, 2, 3, 10, 11])
    assert replay.decode_tokens == 3


async def test_state_lost_before_a_top_up_arrived_is_replayed_once() -> None:
    script = (
        [*(token(1, 3 + n, 10 + n) for n in range(5)), lost(1)],
        [lost(2)],
        [token(3, 8 + n, 15 + n, done=n == 4) for n in range(5)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 10) == list(range(10, 20))
        assert session.replays == 1
    assert [message.base_length for message in target.rounds] == [0, 7, 0]


async def test_a_run_that_ended_early_is_asked_for_again() -> None:
    script = (
        [token(1, 3, 10), token(1, 4, 11, done=True)],
        [token(2, 5, 12), token(2, 6, 13, done=True)],
    )
    async with session_with(*script) as (session, target):
        assert await decode(session, 4) == [10, 11, 12, 13]
    assert [message.base_length for message in target.rounds] == [0, 4]


async def test_draft_tokens_end_a_run_whose_answers_count_no_more() -> None:
    judged = target_pb2.Verdict(
        accepted=1,
        output_token_ids=[7, 8],
        handle=common_pb2.KvHandle(replica_id=REPLICA, length=5),
        done=True,
    )
    script = (
        [token(1, 3, 10), token(1, 4, 11)],
        [token(1, 5, 12, done=True), target_pb2.VerifyResponse(round_number=2, verdict=judged)],
    )
    async with session_with(*script) as (session, _):
        prefix = TokenPrefix([1, 2, 3])
        first = await session.verify(prefix, trace=UNTRACED, further=8)
        prefix.extend(first.output_token_ids)
        drafts = [common_pb2.DraftToken(token_id=7)]
        assert await session.verify(prefix, drafts, trace=UNTRACED) == judged


async def test_a_token_left_out_is_an_error() -> None:
    async with session_with([token(1, 3, 10), token(1, 5, 12)]) as (session, _):
        with pytest.raises(InternalFailure, match="left out"):
            await decode(session, 3)


@pytest.mark.parametrize("position", [2, 4])
async def test_a_verdict_for_another_length_is_not_applied(position: int) -> None:
    async with session_with([token(1, position, 10)], run_credit=0) as (session, _):
        with pytest.raises(InternalFailure, match="not asked"):
            await decode(session, 1)


async def test_verdicts_of_earlier_rounds_are_dropped() -> None:
    late = [token(1, 3, 99), token(1, 4, 98), token(2, 4, 11)]
    async with session_with([token(1, 3, 10)], late, run_credit=0) as (session, _):
        assert await decode(session, 2) == [10, 11]


async def test_a_verdict_without_a_token_is_an_error_and_no_end_of_trying() -> None:
    empty = token(1, 3, 10)
    del empty.verdict.output_token_ids[:]
    async with session_with([empty], run_credit=0) as (session, _):
        with pytest.raises(InternalFailure, match="without a token"):
            await decode(session, 1)


async def test_another_process_in_the_middle_of_a_run_is_not_believed() -> None:
    async with session_with([token(1, 3, 10), token(1, 4, 11, replica="other")]) as (session, _):
        with pytest.raises(PoolUnavailable, match="restarted"):
            await decode(session, 3)


async def test_a_target_that_never_keeps_state_is_given_up() -> None:
    script = [[lost(number)] for number in range(1, 200)]
    async with session_with(*script) as (session, target):
        with pytest.raises(InternalFailure, match="in a row"):
            await decode(session, 3)
    assert len(target.rounds) == 101
