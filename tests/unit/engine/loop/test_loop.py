"""The model thread: what shares a forward, and what runs between two of them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from outrider.engine.loop import LoopOptions, ModelLoop
from outrider.engine.model import Chunk
from outrider.engine.work import Work
from tests.unit.engine.loop.counting import (
    GatedModel,
    Job,
    Loop,
    result_of,
)


async def test_a_result_comes_with_its_timings(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    done = await result_of(loop, Job([1], tokens=4))
    assert done.result == [2, 3, 4, 5]
    assert done.timings.batch_size == 1
    assert done.timings.forward_us > 0
    assert loop.forwards == 4


async def test_forwards_run_on_one_thread_of_their_own(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    await asyncio.gather(*(result_of(loop, Job([1], tokens=2)) for _ in range(5)))
    assert len(model.threads) == 1
    assert threading.get_ident() not in model.threads


async def test_work_of_all_kinds_shares_a_forward(loop: Loop, model: GatedModel) -> None:
    first = loop.submit(Job([1], tokens=3))
    await model.wait_until_running()
    later = [loop.submit(Job([1, 2], tokens=2)), loop.submit(Job([3, 3, 3], tokens=1))]
    model.let_run()
    done = [await ticket.result() for ticket in (first, *later)]
    assert [each.result for each in done] == [[2, 3, 4], [3, 4], [4]]
    assert model.batches == [[1], [1, 2, 3], [1, 1]]
    assert [each.timings.batch_size for each in done] == [2, 2, 3]


async def test_queue_depth_counts_what_has_not_begun(loop: Loop, model: GatedModel) -> None:
    first = loop.submit(Job([1]))
    await model.wait_until_running()
    assert loop.queue_depth == 0
    second = loop.submit(Job([1]))
    assert loop.queue_depth == 1
    model.let_run()
    await first.result()
    await second.result()
    assert loop.queue_depth == 0


async def test_a_long_prompt_lets_others_in_between(loop: Loop, model: GatedModel) -> None:
    long = loop.submit(Job([1] * 80))
    await model.wait_until_running()
    short = loop.submit(Job([5]))
    model.let_run()
    assert (await short.result()).result == [1]
    assert (await long.result()).result == [2]
    assert model.batches == [[16], [1], [16], [16], [32]]


async def test_slices_leave_the_wanted_rows_together(model: GatedModel) -> None:
    def read(rows: int) -> Work[int]:
        got = yield Chunk(model.new_sequence(), [1] * 100, rows=rows)
        return got.shape[0]

    loop: ModelLoop[int, int] = ModelLoop(model, read, options=LoopOptions(prefill_slice=8))
    loop.start()
    model.let_run()
    try:
        for rows in (0, 1, 8, 33, 99, 100):
            assert (await loop.submit(rows).result()).result == rows
    finally:
        await loop.close()


async def test_calls_run_on_the_model_thread_and_hand_errors_back(
    loop: Loop, model: GatedModel
) -> None:
    model.let_run()
    await result_of(loop, Job([1]))
    assert {await loop.call(threading.get_ident)} == model.threads

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await loop.call(fail)
    assert loop.alive


async def test_a_call_runs_though_its_caller_is_cancelled(loop: Loop, model: GatedModel) -> None:
    ticket = loop.submit(Job([1]))
    await model.wait_until_running()
    ran = threading.Event()
    caller = asyncio.create_task(loop.call(ran.set))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    model.let_run()
    await ticket.result()
    assert await asyncio.to_thread(ran.wait, 30)


async def test_a_cancelled_request_does_not_run(loop: Loop, model: GatedModel) -> None:
    ticket = loop.submit(Job([1]))
    await model.wait_until_running()
    ran = threading.Event()
    assert loop.request(ran.set).cancel()
    model.let_run()
    await ticket.result()
    assert await loop.call(lambda: 5) == 5
    assert not ran.is_set()


async def test_many_generations_at_once_give_each_its_own(loop: Loop, model: GatedModel) -> None:
    model.let_run(10_000)
    done = await asyncio.gather(
        *(result_of(loop, Job([number % 3], tokens=1 + number % 3)) for number in range(200))
    )
    for number, each in enumerate(done):
        start = number % 3
        assert each.result == [start + 1 + step for step in range(1 + number % 3)]
