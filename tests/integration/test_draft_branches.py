"""Side branches: what the draft prepares for corrections, beside the chain."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from grpc import aio

from draft_service.proposal import DraftRule
from outrider.engine.loop import LoopOptions
from outrider.engine.model import Model
from outrider.randomness import gumbel, token_word
from outrider.testing.streams import draft_round
from outrider.v1 import common_pb2, draft_pb2, model_pb2, model_pb2_grpc
from tests.integration.drafting import (
    PROMPT,
    SEED,
    SIZE,
    TABLE,
    Received,
    serving,
    serving_from_a_process,
    table_model,
)

LENGTH = len(PROMPT)
COUPLED = common_pb2.SamplingParams(verification=common_pb2.VERIFICATION_COUPLED)


async def blocks_in_use(channel: aio.Channel) -> int:
    status = await model_pb2_grpc.ModelServiceStub(channel).GetStatus(
        model_pb2.ModelServiceGetStatusRequest()
    )
    return status.kv_blocks_in_use


@pytest.mark.parametrize("branches", [1, 4, 8, 64])
@pytest.mark.parametrize("branch_length", [0, 1, 3])
async def test_branches_are_drawn_below_other_tokens_of_the_chain(
    branches: int, branch_length: int
) -> None:
    model = table_model()
    async with serving(model) as channel:
        received = await Received.opened(channel)
        message = draft_round(
            1, PROMPT, until=11, together=5, branches=branches, branch_length=branch_length
        )
        await received.send(message, PROMPT)
        await received.until_done()
        chain = received.chain(PROMPT)
        assert len(chain) == 8
        beside = Counter(len(path) - LENGTH - 1 for path in received.guesses)
        assert set(beside) <= set(range(8))
        assert len(beside) > 1
        assert max(beside.values()) <= max(1, min(4, branches // 4))
        for path in received.guesses:
            place = len(path) - LENGTH - 1
            assert list(path[LENGTH:-1]) == chain[:place]
            assert path[-1] != chain[place]
            assert len(received.chain(path)) == branch_length
        assert len(received.drawn) == 8 + branch_length * len(received.guesses)
        # No forward read more than the branches that may grow, beside the chain.
        assert model.tokens <= LENGTH + 7 + branches * (model.forwards - 2)
        await received.stream.half_close()
        assert await blocks_in_use(channel) == 0
    received.check()


async def test_nothing_branches_before_the_tokens_that_are_waited_for() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=9, together=7, branches=8, branch_length=2)
        await received.send(message, PROMPT)
        first = await received.proposal()
        assert [token.guess for token in first.tokens[:4]] == [False] * 4
        assert all(token.guess for token in first.tokens[4:])
        await received.until_done()
    received.check()


async def test_the_likeliest_alternatives_come_first() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=4, branches=12, branch_length=1)
        await received.send(message, PROMPT)
        await received.until_done()
    (drawn,) = received.chain(PROMPT)
    order = TABLE[PROMPT[-2], PROMPT[-1]].argsort(descending=True).tolist()
    others = [each for each in order if each != drawn]
    assert 0 < len(received.guesses) <= 3
    assert [path[-1] for path in received.guesses] == others[: len(received.guesses)]


async def test_greedy_alternatives_are_the_next_likely_tokens() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel, sampling=common_pb2.SamplingParams(temperature=0))
        message = draft_round(1, PROMPT, until=4, branches=12, branch_length=2)
        await received.send(message, PROMPT)
        await received.until_done()
    order = TABLE[PROMPT[-2], PROMPT[-1]].argsort(descending=True).tolist()
    assert received.chain(PROMPT) == order[:1]
    assert 0 < len(received.guesses) <= 3
    assert [path[-1] for path in received.guesses] == order[1 : 1 + len(received.guesses)]
    received.check(temperature=0.0)


async def test_coupled_tokens_and_alternatives_follow_the_shared_noise() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(channel, sampling=COUPLED)
        message = draft_round(1, PROMPT, until=9, together=4, branches=12, branch_length=2)
        await received.send(message, PROMPT)
        await received.until_done()
    log_probs = TABLE[PROMPT[-2], PROMPT[-1]].log_softmax(dim=0).tolist()
    scores = [
        log_prob + gumbel(token_word(SEED, position=LENGTH, token_id=token_id))
        for token_id, log_prob in enumerate(log_probs)
    ]
    order = sorted(range(SIZE), key=lambda token_id: -scores[token_id])
    assert received.chain(PROMPT)[0] == order[0]
    first = [path[-1] for path in received.guesses if len(path) == LENGTH + 1]
    assert first == order[1:4]
    assert len(received.chain(PROMPT)) == 6
    received.check(DraftRule.COUPLED)


async def test_a_greedy_mode_stays_greedy_with_coupled() -> None:
    async with serving(table_model()) as channel:
        received = await Received.opened(
            channel, sampling=COUPLED, mode=draft_pb2.DRAFT_MODE_GREEDY, derived_seed=None
        )
        await received.send(draft_round(1, PROMPT, until=9), PROMPT)
        await received.until_done()
    received.check(temperature=0.0)


async def test_a_branch_that_came_true_is_gone_on_from() -> None:
    model = table_model()
    async with serving(model) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=10, together=6, branches=4, branch_length=3)
        await received.send(message, PROMPT)
        await received.until_done()
        path = max(received.guesses, key=len)
        committed = [*path, received.chain(path)[0]]
        forwards, tokens = model.forwards, model.tokens
        until = len(committed) + 5
        await received.send(
            draft_round(2, committed, base=LENGTH, until=until, together=until), committed
        )
        await received.until_done()
        assert received.sizes[-1] == (2, 3)
        assert len(received.chain(committed)) == 5
        # Guess, committed and drafted ids were read at once, and then one for each new token.
        assert model.forwards - forwards == 3
        assert model.tokens - tokens == 4 + 2
    received.check()


async def test_a_round_gone_on_with_has_branches_of_its_own() -> None:
    async with serving(table_model(step_time_s=0.02)) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=60, together=6, branches=3, branch_length=2)
        await received.send(message, PROMPT)
        await received.proposal()
        committed = [*PROMPT, *received.chain(PROMPT)[:3]]
        message = draft_round(
            2, committed, base=LENGTH, until=14, together=10, branches=4, branch_length=2
        )
        await received.send(message, committed)
        await received.until_done()
        beside = [path for path in received.guesses if path[: len(committed)] == tuple(committed)]
        assert len(beside) >= 4
        assert all(len(received.chain(path)) == 2 for path in beside)
        await received.stream.half_close()
        assert await blocks_in_use(channel) == 0
    received.check()


async def test_a_proposal_that_was_drawn_before_gets_branches_too() -> None:
    model = table_model()
    async with serving(model) as channel:
        received = await Received.opened(channel)
        await received.send(
            draft_round(1, PROMPT, until=12, together=7, branches=1, branch_length=1), PROMPT
        )
        await received.until_done()
        committed = [*PROMPT, *received.chain(PROMPT)[:5]]
        await received.send(
            draft_round(
                2, committed, base=LENGTH, until=12, together=12, branches=4, branch_length=2
            ),
            committed,
        )
        await received.until_done()
        beside = [path for path in received.guesses if len(path) > len(committed)]
        assert len(beside) >= 4
        assert all(len(received.chain(path)) == 2 for path in beside)
        # The same round again: its branches are there.
        await received.send(
            draft_round(
                3, committed, base=LENGTH, until=12, together=12, branches=4, branch_length=2
            ),
            committed,
        )
        assert not (await received.until_done()).tokens
    received.check()


async def test_branches_end_at_the_context_edge() -> None:
    async with serving(table_model(context_length=8)) as channel:
        received = await Received.opened(channel)
        message = draft_round(1, PROMPT, until=8, together=8, branches=12, branch_length=9)
        await received.send(message, PROMPT)
        await received.until_done()
        assert {len(path) + len(received.chain(path)) for path in received.guesses} == {8}
    received.check()


@pytest.mark.parametrize("blocks", [6, 8, 12])
async def test_branches_take_nobodys_room(blocks: int) -> None:
    """Two chains grow into a small pool: what they draft is what they would draft alone."""
    model = table_model(blocks=blocks, context_length=48)
    async with serving(model, options=LoopOptions(admission_wait_s=30.0)) as channel:
        streams = [await Received.opened(channel) for _ in range(2)]
        for received in streams:
            message = draft_round(1, PROMPT, until=48, together=20, branches=40, branch_length=30)
            await received.send(message, PROMPT)
        for received in streams:
            await received.until_done()
            assert len(received.chain(PROMPT)) == 45
            received.check()
            await received.stream.half_close()
        assert await blocks_in_use(channel) == 0
    assert model.pool.statistics.preemptions == 0


@pytest.mark.parametrize("seed", range(4))
async def test_rounds_at_random_leave_no_block_behind(seed: int) -> None:
    async with serving(few_blocks()) as channel:
        await rounds_at_random(channel, random.Random(seed))
        assert await blocks_in_use(channel) == 0


async def test_a_model_in_a_process_drafts_the_same() -> None:
    async with serving_from_a_process(few_blocks) as channel:
        await rounds_at_random(channel, random.Random(7))
        assert await blocks_in_use(channel) == 0


def few_blocks() -> Model:
    return table_model(blocks=12, context_length=96, step_time_s=0.0005)


async def rounds_at_random(channel: aio.Channel, generator: random.Random) -> None:
    """Three generations: their chain, a branch or neither comes true, whatever is under way."""
    streams = [await Received.opened(channel) for _ in range(3)]
    committed = [list(PROMPT) for _ in streams]
    for number in range(1, 31):
        place = generator.randrange(len(streams))
        received, ids = streams[place], committed[place]
        if len(ids) > 70:
            continue
        k, ahead = generator.randint(0, 5), generator.randint(0, 6)
        message = draft_round(
            number,
            ids,
            until=len(ids) + k + ahead,
            together=len(ids) + k,
            branches=generator.choice([0, 2, 8]),
            branch_length=generator.randint(0, 4),
        )
        await received.send(message, ids)
        for _ in range(generator.randint(0, 3)):
            if (await received.proposal()).done:
                break
        paths = [
            path for path in [*received.drawn, *received.guesses] if path[: len(ids)] == tuple(ids)
        ]
        if paths and generator.random() < 0.8:
            ids[:] = generator.choice(paths)
        if generator.random() < 0.5:
            ids.append(generator.randrange(SIZE))
    for received in streams:
        await received.stream.call.done_writing()
        while (answer := await received.stream.call.read()) is not aio.EOF:
            for token in answer.proposal.tokens:
                received.hang(token)
        received.check()
