"""Works that give answers before their last one."""

from __future__ import annotations

import asyncio

import pytest

from outrider.engine.loop import ModelLoop
from outrider.engine.model import Chunk
from outrider.engine.work import Answer, Work
from outrider.errors import InternalFailure
from tests.unit.engine.loop.counting import GatedModel, Job, Loop, result_of


async def test_answers_come_as_they_are_made(loop: Loop, model: GatedModel) -> None:
    answers = loop.submit(Job([1], tokens=3, each=True)).answers()
    for expected in ([2], [3], [4]):
        model.let_run(1)
        done = await anext(answers)
        assert done.result == expected
        assert not done.last
    last = await anext(answers)
    assert last.result == [2, 3, 4]
    assert last.last
    with pytest.raises(StopAsyncIteration):
        await anext(answers)


async def test_timings_are_since_the_answer_before(loop: Loop, model: GatedModel) -> None:
    answers = loop.submit(Job([1] * 40, tokens=2, each=True)).answers()
    await asyncio.sleep(0.02)
    model.let_run(2)
    first = (await anext(answers)).timings
    await asyncio.sleep(0.02)
    model.let_run(1)
    second, last = [(await anext(answers)).timings for _ in range(2)]
    assert first.forward_us >= 10_000
    assert second.forward_us >= 10_000
    assert second.queue_us < second.forward_us
    assert second.batch_size == 1
    assert last.forward_us == 0
    assert last.batch_size == 0


async def test_work_without_an_end_does_not_hold_up_others(loop: Loop, model: GatedModel) -> None:
    endless = loop.submit(Job([1], tokens=10**9, each=True), stream="endless")
    await model.wait_until_running()
    model.let_run(100_000)
    done = await asyncio.gather(*(result_of(loop, Job([1], tokens=4)) for _ in range(20)))
    assert all(each.result == [2, 3, 4, 5] for each in done)
    assert not endless.abandoned
    assert not (await anext(endless.answers())).last
    endless.abandon()


async def test_abandoned_work_ends_though_answers_lie_there(loop: Loop, model: GatedModel) -> None:
    job = Job([1], tokens=50, each=True)
    ticket = loop.submit(job)
    await model.wait_until_running()
    model.let_run(1)
    await asyncio.wait([ticket.future])
    ticket.abandon()
    model.let_run()
    await loop.call(lambda: None)
    assert job.closed


async def test_answers_before_an_error_arrive() -> None:
    model = GatedModel()

    def work(job: int) -> Work[int]:
        yield Answer(job)
        yield Chunk(model.new_sequence(), [1], rows=1)
        yield Answer(job + 1)
        raise RuntimeError("secret")

    loop: ModelLoop[int, int] = ModelLoop(model, work)
    loop.start()
    model.let_run()
    try:
        answers = loop.submit(5).answers()
        assert [(await anext(answers)).result for _ in range(2)] == [5, 6]
        with pytest.raises(InternalFailure):
            await anext(answers)
    finally:
        await loop.close()
