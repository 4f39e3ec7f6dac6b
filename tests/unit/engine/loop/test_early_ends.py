"""Works that end before their result: taken back, cancelled, superseded, closed."""

from __future__ import annotations

import asyncio

import pytest

from outrider.engine.loop import ModelLoop, Withdrawn
from outrider.engine.work import Work
from outrider.errors import (
    PoolUnavailable,
)
from tests.unit.engine.loop.counting import (
    GatedModel,
    Job,
    Loop,
    counting_on,
)


async def test_withdrawn_work_never_starts(loop: Loop, model: GatedModel) -> None:
    first = loop.submit(Job([1]))
    await model.wait_until_running()
    job = Job([1])
    ticket = loop.submit(job)
    assert await ticket.withdraw()
    assert not await ticket.withdraw()
    model.let_run()
    await first.result()
    with pytest.raises(Withdrawn):
        await ticket.result()
    await loop.call(lambda: None)
    assert not job.started


async def test_begun_or_ended_work_is_not_withdrawn(loop: Loop, model: GatedModel) -> None:
    ticket = loop.submit(Job([1]))
    await model.wait_until_running()
    assert not await ticket.withdraw()
    model.let_run()
    assert (await ticket.result()).result == [2]
    assert not await ticket.withdraw()


async def test_cancelled_waiters_end_their_work_before_the_next_call(
    loop: Loop, model: GatedModel
) -> None:
    job, other = Job([1], tokens=50), Job([1], tokens=3)
    waiter = asyncio.create_task(loop.submit(job).result())
    await model.wait_until_running()
    rest = loop.submit(other)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    closed = asyncio.create_task(loop.call(lambda: job.closed))
    await asyncio.sleep(0)
    model.let_run()
    assert await closed
    assert (await rest.result()).result == [2, 3, 4]
    assert job.length == 1


async def test_a_cancelled_waiter_of_queued_work_leaves_nothing(
    loop: Loop, model: GatedModel
) -> None:
    first = loop.submit(Job([1]))
    await model.wait_until_running()
    job = Job([1])
    waiter = asyncio.create_task(loop.submit(job).result())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    model.let_run()
    await first.result()
    await loop.call(lambda: None)
    assert not job.started
    # Calls go before queued jobs, so the job may still be there for a moment.
    async with asyncio.timeout(60):
        while loop.queue_depth:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not job.started


async def test_the_newest_work_on_a_sequence_has_it(loop: Loop, model: GatedModel) -> None:
    older = Job([1], tokens=9)
    ticket = loop.submit(older)
    await model.wait_until_running()
    newer = loop.submit(Job([4], tokens=2, sequence=older.sequence))
    model.let_run()
    with pytest.raises(PoolUnavailable):
        await ticket.result()
    assert (await newer.result()).result == [5, 1]
    assert older.closed
    assert older.sequence is not None
    assert list(older.sequence.prefix.token_ids) == [1, 4, 5]


async def test_closing_fails_what_is_open_and_refuses_more(model: GatedModel) -> None:
    loop: Loop = ModelLoop(model, counting_on(model))
    loop.start()
    job = Job([1], tokens=50)
    live = loop.submit(job)
    await model.wait_until_running()
    queued = loop.submit(Job([1]))
    closing = asyncio.create_task(loop.close())
    await asyncio.sleep(0)
    model.let_run()
    await closing
    for ticket in (live, queued):
        with pytest.raises(PoolUnavailable):
            await ticket.result()
    assert job.closed
    assert not loop.alive
    with pytest.raises(PoolUnavailable):
        loop.submit(Job([1]))
    with pytest.raises(PoolUnavailable):
        await loop.call(lambda: None)


async def test_a_thread_that_dies_is_seen_and_leaves_nobody_waiting(
    loop: Loop, model: GatedModel
) -> None:
    def fail() -> None:
        raise SystemExit

    waiter = loop.submit(Job([1], tokens=9))
    await model.wait_until_running()
    dying = asyncio.create_task(loop.call(fail))
    await asyncio.sleep(0)
    model.let_run()
    with pytest.raises(PoolUnavailable):
        await waiter.result()
    with pytest.raises(PoolUnavailable):
        await dying
    assert not loop.alive


async def test_who_came_with_a_job_that_ends_the_thread_is_told(model: GatedModel) -> None:
    def start(job: Job) -> Work[list[int]]:
        if not job.prompt:
            raise SystemExit
        return counting_on(model)(job)

    loop: Loop = ModelLoop(model, start)
    loop.start()
    first = loop.submit(Job([1]))
    await model.wait_until_running()
    tickets = [loop.submit(Job(prompt)) for prompt in ([1], [], [1])]
    model.let_run()
    assert (await first.result()).result == [2]
    for ticket in tickets:
        with pytest.raises(PoolUnavailable):
            await asyncio.wait_for(ticket.result(), timeout=10)
    assert loop.queue_depth == 0


async def test_work_on_state_that_was_taken_over_ends(loop: Loop, model: GatedModel) -> None:
    job = Job([1], tokens=9)
    ticket = loop.submit(job)
    await model.wait_until_running()
    assert job.sequence is not None
    heir = asyncio.create_task(loop.call(job.sequence.hand_over))
    await asyncio.sleep(0)
    model.let_run()
    with pytest.raises(PoolUnavailable):
        await ticket.result()
    assert job.closed
    assert len((await heir).prefix) == 1
