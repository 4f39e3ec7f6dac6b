"""KV state that runs short: who waits, what is shared, and that every block comes back."""

from __future__ import annotations

import asyncio

import pytest

from outrider.errors import Exhausted
from tests.unit.engine.loop.counting import GatedModel, Job, result_of
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


async def test_work_waits_until_there_is_room_for_all_of_its_chunk(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        holder = Job(prompt(5, of=1))
        await result_of(loop, holder)
        waiter = Job(prompt(4, of=2))
        ticket = loop.submit(waiter)
        await loop.call(lambda: None)
        await asyncio.sleep(0.02)
        assert not ticket.future.done()
        assert loop.queue_depth == 1
        assert waiter.length == 0
        forwards = loop.forwards
        await let_go(loop, holder)
        done = await ticket.result()
        assert done.result == [2]
        assert done.timings.queue_us >= 20_000
        assert loop.forwards > forwards
        assert loop.queue_depth == 0


async def test_a_chunk_that_fits_is_admitted_beside_others(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        await result_of(loop, Job(prompt(5, of=1)))
        assert (await result_of(loop, Job(prompt(3, of=2)))).result == [2]
        assert model.pool.available == 0


async def test_nobody_overtakes_the_first_in_line(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        holder = Job(prompt(5, of=1))
        await result_of(loop, holder)
        large = loop.submit(Job(prompt(6, of=2)))
        small = loop.submit(Job(prompt(1, of=3)))
        await asyncio.sleep(0.02)
        assert not small.future.done()
        await let_go(loop, holder)
        assert (await large.result()).result == [2]
        assert (await small.result()).result == [2]


async def test_a_wait_that_takes_too_long_is_refused(model: GatedModel) -> None:
    async with started(model, wait_s=0.05) as loop:
        model.let_run()
        await result_of(loop, Job(prompt(6, of=1)))
        waiter = Job(prompt(4, of=2))
        with pytest.raises(Exhausted) as refusal:
            await asyncio.wait_for(result_of(loop, waiter), timeout=10)
        assert refusal.value.retry_after_s is not None
        assert waiter.closed
        assert loop.queue_depth == 0
        assert model.pool.in_use == 6


async def test_a_line_that_is_too_long_is_refused(model: GatedModel) -> None:
    async with started(model, queue=2) as loop:
        model.let_run()
        holder = Job(prompt(8, of=1))
        await result_of(loop, holder)
        tickets = [loop.submit(Job(prompt(1, of=of))) for of in (2, 3, 4)]
        with pytest.raises(Exhausted):
            await asyncio.wait_for(tickets[2].result(), timeout=10)
        await let_go(loop, holder)
        assert [(await ticket.result()).result for ticket in tickets[:2]] == [[2], [2]]


async def test_work_that_waits_for_room_can_be_taken_back(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        holder = Job(prompt(8, of=1))
        await result_of(loop, holder)
        waiter = Job(prompt(1, of=2))
        ticket = loop.submit(waiter)
        await asyncio.sleep(0.02)
        assert waiter.started
        assert await ticket.withdraw()
        assert loop.queue_depth == 0
        await loop.call(lambda: None)
        assert waiter.closed
        await let_go(loop, holder)
        assert model.pool.in_use == 0


async def test_equal_prompts_in_flight_are_read_once() -> None:
    model = GatedModel(blocks=100)
    async with started(model) as loop:
        jobs = [Job(prompt(6, of=1)) for _ in range(5)]
        tickets = [loop.submit(job) for job in jobs]
        model.let_run()
        assert [(await ticket.result()).result for ticket in tickets] == [[2]] * 5
        # The last 31 ids are few enough for each to read them itself.
        assert model.tokens == 4 * BLOCK + 5 * (2 * BLOCK - 1)
        assert model.pool.statistics.prefix_hit_tokens == 4 * 4 * BLOCK


async def test_what_is_shared_takes_room_once(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        done = await asyncio.gather(*(result_of(loop, Job(prompt(6, of=1))) for _ in range(2)))
        assert [each.result for each in done] == [[2]] * 2
        assert model.pool.in_use == BLOCKS


@pytest.mark.parametrize("stop_after", [0, 1, 3])
async def test_whatever_ends_early_gives_back_what_was_reserved(
    model: GatedModel, stop_after: int
) -> None:
    async with started(model) as loop:
        job = Job(prompt(7, of=1), tokens=5)
        ticket = loop.submit(job)
        await model.wait_until_running()
        for _ in range(stop_after):
            model.let_run(1)
            await model.wait_until_running()
        ticket.abandon()
        model.let_run()
        await loop.call(lambda: None)
        assert job.closed
        assert model.pool.in_use == -(-job.length // BLOCK) == stop_after + 1
        await let_go(loop, job)
        assert model.pool.in_use == 0


async def test_only_what_is_final_can_be_found(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        job = Job(prompt(2, of=1), tokens=40)
        await result_of(loop, job)
        assert job.length == 2 * BLOCK - 1 + 39
        await let_go(loop, job)
        assert model.pool.cached == 1
