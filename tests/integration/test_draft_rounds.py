"""The draft goes on below what it proposed, and answers along the way: real gRPC."""

from __future__ import annotations

import pytest
from grpc import StatusCode, aio

from outrider.testing.streams import draft_round
from outrider.v1 import draft_pb2
from tests.integration.drafting import PROMPT, SIZE, Received, serving, table_model

STEP_S = 0.03
LENGTH = len(PROMPT)


async def fresh_chain(channel: aio.Channel, token_ids: list[int], until: int) -> list[int]:
    """What new state drafts below these ids."""
    received = await Received.opened(channel)
    await received.send(draft_round(1, token_ids, until=until), token_ids)
    await received.until_done()
    await received.stream.half_close()
    return received.chain(token_ids)


async def test_the_proposal_comes_whole_and_then_each_token_by_itself() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=12, together=7), PROMPT)
        assert (await received.until_done()).done
        assert received.sizes == [(1, 4), *[(1, 1)] * 5]
        assert received.chain(PROMPT) == await fresh_chain(channel, PROMPT, 12)
    received.check()


async def test_fewer_of_a_proposal_may_come_together() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=12, together=5, branches=2, branch_length=1)
        await received.send(message, PROMPT)
        await received.until_done()
    # Branches begin with the tokens that were waited for: two guesses, then a token below each, and
    # one beside the next token of the chain.
    assert received.sizes[:2] == [(1, 2 + 2), (1, 1 + 2 + 1)]
    assert len(received.drawn) > 9
    received.check()


@pytest.mark.parametrize("together", [2, LENGTH])
async def test_without_a_proposal_to_wait_for_each_token_comes_by_itself(together: int) -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=6, together=together), PROMPT)
        await received.until_done()
    assert received.sizes == [(1, 1)] * 3


async def test_a_round_that_follows_the_chain_is_gone_on_with() -> None:
    model = table_model(step_time_s=STEP_S)
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=30, together=6), PROMPT)
        await received.proposal()
        committed = [*PROMPT, *received.chain(PROMPT)[:2]]
        await received.send(draft_round(2, committed, base=LENGTH, until=12, together=9), committed)
        await received.until_done()
        numbers = [number for number, _ in received.sizes]
        assert numbers == sorted(numbers)
        assert numbers[0] == 1
        assert numbers[-1] == 2
        chain = received.chain(PROMPT)
        # All was drafted once, and read once.
        assert received.again == 0
        assert len(chain) == 12 - LENGTH == model.forwards
        assert model.tokens == 11
        assert chain == await fresh_chain(channel, PROMPT, 12)
    received.check()


async def test_a_round_that_goes_another_way_ends_the_drafting_at_once() -> None:
    model = table_model(step_time_s=STEP_S)
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=100, together=5), PROMPT)
        await received.proposal()
        first = received.chain(PROMPT)[0]
        committed = [*PROMPT, (first + 1) % SIZE]
        await received.send(draft_round(2, committed, base=LENGTH, until=8, together=6), committed)
        await received.until_done()
        assert received.sizes[-1][0] == 1
        read = model.forwards
        await received.until_done()
        assert received.sizes[-1][0] == 2
        assert received.chain(committed) == await fresh_chain(channel, committed, 8)
        assert read <= 5
    received.check()


async def test_a_later_round_may_ask_for_less() -> None:
    async with serving(table_model(step_time_s=STEP_S)) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=100, together=5), PROMPT)
        await received.proposal()
        committed = [*PROMPT, *received.chain(PROMPT)]
        await received.send(draft_round(2, committed, base=LENGTH), committed)
        await received.until_done()
        assert 2 <= len(received.chain(PROMPT)) <= 5
        until = len(PROMPT) + len(received.chain(PROMPT)) + 2
        await received.send(draft_round(3, committed, base=LENGTH, until=until), committed)
        await received.until_done()
        assert len(received.chain(PROMPT)) == until - LENGTH
    received.check()


async def test_the_end_of_the_callers_messages_ends_the_drafting() -> None:
    model = table_model(step_time_s=STEP_S)
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=200, together=5), PROMPT)
        await received.proposal()
        await received.stream.call.done_writing()
        assert (await received.until_done()).done
        assert await received.stream.call.read() is aio.EOF
        assert model.forwards < 10


async def test_rounds_without_drafts_between_others_keep_every_token_right() -> None:
    """The draft's own greedy tokens are committed: none is ever missed."""
    model = table_model()
    async with serving(model) as channel:
        received = await Received.opened(channel, mode=draft_pb2.DRAFT_MODE_GREEDY)
        committed, length, number = list(PROMPT), 0, 0
        for ahead in (0, 4):
            for k in (3, 0, 0, 3) * 3:
                number += 1
                until = len(committed) + k + (ahead if k else 0)
                message = draft_round(
                    number, committed, base=length, until=until, together=len(committed) + k
                )
                await received.send(message, committed)
                answer = await received.until_done()
                length = min(answer.handle.length, len(committed))
                output = []
                for _ in range(k + 1):
                    before, last = [*committed, *output][-2:]
                    output.append(int(model.table[before, last].argmax()))
                assert received.chain(committed)[:k] == output[:k]
                committed += output
        assert model.tokens < 2 * len(committed) + 5 * number


async def test_a_bonus_that_was_drafted_already_is_gone_on_from() -> None:
    model = table_model()
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, until=11, together=7), PROMPT)
        await received.until_done()
        chain = received.chain(PROMPT)
        committed = [*PROMPT, *chain[:5]]
        before = model.tokens
        await received.send(
            draft_round(2, committed, base=LENGTH, until=14, together=12), committed
        )
        await received.until_done()
        assert model.tokens - before == 3
        assert len(received.chain(committed)) == 6
    received.check()


async def test_a_long_unknown_part_is_drafted_from_anew() -> None:
    model = table_model(context_length=2048)
    committed = [place % SIZE for place in range(800)]
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, committed, until=804), committed)
        await received.until_done()
        chain = received.chain(committed)
        longer = [*committed, *chain[:2]]
        await received.send(draft_round(2, longer, base=800, until=806), longer)
        await received.until_done()
        assert len(received.chain(longer)) == 4
        assert model.tokens == 805
    received.check()


@pytest.mark.parametrize(
    "fields",
    [
        {"until": 5, "together": 6},
        {"until": 0, "together": 4},
        {"until": 9, "branches": 65},
        {"until": 9, "branches": 1, "branch_length": 65},
        {"until": 260},
    ],
    ids=str,
)
async def test_a_round_beyond_the_limits_is_refused(fields: dict[str, int]) -> None:
    async with serving(table_model(context_length=512)) as channel:
        received = await Received.opened(channel)
        await received.send(draft_round(1, PROMPT, **fields), PROMPT)
        with pytest.raises(aio.AioRpcError) as raised:
            await received.proposal()
        assert raised.value.code() == StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("acceptance", [-0.1, 1.1, float("nan")])
async def test_an_acceptance_that_is_none_is_refused(acceptance: float) -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=6)
        message.round.acceptance = acceptance
        await received.send(message, PROMPT)
        with pytest.raises(aio.AioRpcError) as raised:
            await received.proposal()
        assert raised.value.code() == StatusCode.INVALID_ARGUMENT
