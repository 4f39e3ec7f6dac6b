"""KV state that runs out: who gives way, and who comes back first."""

from __future__ import annotations

import asyncio

import pytest

from outrider.engine.room import KEPT_SHARE
from outrider.errors import Exhausted
from tests.unit.engine.loop.counting import GatedModel, Job, Loop, result_of
from tests.unit.engine.loop.little_room import (
    BLOCK,
    BLOCKS,
    let_go,
    prompt,
    started,
)


@pytest.fixture
def model() -> GatedModel:
    """A model with room for 128 ids in blocks of 16."""
    return GatedModel(blocks=BLOCKS)


async def test_the_newest_gives_way_to_an_older_one_that_grows(model: GatedModel) -> None:
    async with started(model) as loop:
        old, new = Job(prompt(4, of=1), tokens=40), Job(prompt(4, of=2), tokens=40)
        first = loop.submit(old)
        await model.wait_until_running()
        second = loop.submit(new)
        model.let_run()
        alone = (await first.result()).result
        assert model.pool.statistics.preemptions == 1
        assert (new.length, second.future.done()) == (0, False)
        await let_go(loop, old)
        # The model counts on from the last id, and both prompts end alike.
        assert (await second.result()).result == alone
        assert len(alone) == 40


async def test_blocks_are_kept_for_those_that_run_to_grow_into() -> None:
    model = GatedModel(blocks=2 * KEPT_SHARE)
    async with started(model) as loop:
        model.let_run()
        large, small = Job(prompt(14, of=1)), Job(prompt(1, of=2))
        await result_of(loop, large)
        await result_of(loop, small)
        newcomer = loop.submit(Job(prompt(16, of=3)))
        await asyncio.sleep(0.05)
        assert model.pool.available == 17
        assert not newcomer.future.done()
        await let_go(loop, small)
        assert (await newcomer.result()).result == [2]


async def test_who_sits_idle_gives_way_too(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        old, idle = Job(prompt(4, of=1)), Job(prompt(4, of=2))
        await result_of(loop, old)
        await result_of(loop, idle)
        more = Job([2], tokens=20, sequence=old.sequence)
        assert len((await result_of(loop, more)).result) == 20
        assert idle.length == 0
        assert idle.sequence is not None
        assert idle.sequence.preempted


async def test_an_older_one_never_gives_way(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        old, new = Job(prompt(4, of=1)), Job(prompt(4, of=2))
        await result_of(loop, old)
        await result_of(loop, new)
        more = loop.submit(Job([2], tokens=20, sequence=new.sequence))
        await asyncio.sleep(0.05)
        assert (new.length, more.future.done()) == (0, False)
        assert old.length == 4 * BLOCK - 1
        await let_go(loop, old)
        assert len((await more.result()).result) == 20


async def test_who_gave_way_and_does_not_fit_yet_lets_others_pass(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        old, loser = Job(prompt(4, of=1)), Job(prompt(4, of=2))
        await result_of(loop, old)
        await result_of(loop, loser)
        await result_of(loop, Job([2], tokens=20, sequence=old.sequence))
        replay = loop.submit(Job(prompt(4, of=2), sequence=loser.sequence))
        assert (await result_of(loop, Job(prompt(1, of=3)))).result == [2]
        assert not replay.future.done()
        await let_go(loop, old)
        assert (await replay.result()).result == [2]


async def test_waiting_after_a_loss_is_queueing(model: GatedModel) -> None:
    async with started(model) as loop:
        old, new = Job(prompt(4, of=1), tokens=40), Job(prompt(4, of=2), tokens=40)
        first = loop.submit(old)
        await model.wait_until_running()
        second = loop.submit(new)
        model.let_run()
        await first.result()
        await asyncio.sleep(0.2)
        await let_go(loop, old)
        assert (await second.result()).timings.queue_us > 200_000


async def test_who_gave_way_comes_back_before_new_ones(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        old, loser = Job(prompt(4, of=1)), Job(prompt(4, of=2))
        await result_of(loop, old)
        await result_of(loop, loser)
        await result_of(loop, Job([2], tokens=20, sequence=old.sequence))
        new = loop.submit(Job(prompt(4, of=3)))
        await asyncio.sleep(0.02)
        replay = loop.submit(Job(prompt(4, of=2), tokens=2, sequence=loser.sequence))
        await asyncio.sleep(0.02)
        assert not replay.future.done()
        await let_go(loop, old)
        assert (await replay.result()).result == [2, 3]
        assert (await new.result()).result == [2]


async def test_many_generations_in_little_room_all_end(model: GatedModel) -> None:
    """Each goes on from its prompt again when it lost its state, as a stream would."""
    model.let_run(100_000)

    async def generate(loop: Loop, of: int) -> list[int]:
        tokens = prompt(2, of=of)
        wanted = len(tokens) + 6 + of
        sequence = await loop.call(model.new_sequence)
        pending = list(tokens)
        while len(tokens) < wanted:
            job = Job(pending, sequence=sequence)
            try:
                done = await result_of(loop, job)
            except Exhausted:
                assert len(sequence.prefix) == 0
                pending = list(tokens)
            else:
                pending = done.result
                tokens += pending
        await loop.call(sequence.revoke)
        return tokens[len(prompt(2, of=of)) :]

    async with started(model) as loop:
        outputs = await asyncio.wait_for(
            asyncio.gather(*(generate(loop, of) for of in range(6))), timeout=60
        )
        for of, output in enumerate(outputs):
            assert output == [(place + 1) % 5 + 1 for place in range(6 + of)]
        assert model.pool.in_use == 0
