"""KV state that runs short: who waits, who gives way, and that every block comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outrider.engine.loop import LoopOptions, ModelLoop
from outrider.engine.room import KEPT_SHARE
from outrider.errors import Exhausted
from tests.unit.engine.loop.counting import GatedModel, Job, Loop, counting_on, result_of

BLOCK = 16
BLOCKS = 8


@asynccontextmanager
async def started(
    model: GatedModel, *, wait_s: float = 30.0, queue: int = 100
) -> AsyncIterator[Loop]:
    options = LoopOptions(prefill_slice=BLOCK, admission_wait_s=wait_s, admission_queue=queue)
    loop: Loop = ModelLoop(model, counting_on(model), options=options)
    loop.start()
    try:
        yield loop
    finally:
        model.let_run()
        await loop.close()


@pytest.fixture
def model() -> GatedModel:
    """A model with room for 128 ids in blocks of 16."""
    return GatedModel(blocks=BLOCKS)


async def let_go(loop: Loop, job: Job) -> None:
    """What the end of a stream does."""
    assert job.sequence is not None
    await loop.call(job.sequence.revoke)


def prompt(blocks: int, *, of: int) -> list[int]:
    """Ids that fill so many blocks up to the last place; `of` makes them differ."""
    return [of, *[1] * (blocks * BLOCK - 2)]


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


async def test_only_what_is_final_can_be_found(model: GatedModel) -> None:
    async with started(model) as loop:
        model.let_run()
        job = Job(prompt(2, of=1), tokens=40)
        await result_of(loop, job)
        assert job.length == 2 * BLOCK - 1 + 39
        await let_go(loop, job)
        assert model.pool.cached == 1
