"""The model thread: what shares a forward, what a failure touches, and how work ends early."""

from __future__ import annotations

import asyncio
import threading

import pytest
import torch

from outrider.engine.loop import LoopOptions, ModelLoop, Withdrawn
from outrider.engine.model import Chunk
from outrider.engine.work import Work
from outrider.errors import (
    InternalFailure,
    InvalidRequest,
    NumericalFailure,
    OutOfRange,
    PoolUnavailable,
)
from outrider.testing.scripted import ScriptedModel
from tests.unit.engine.loop.counting import (
    CONTEXT,
    GatedModel,
    Job,
    Loop,
    counting_on,
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
    async with asyncio.timeout(10):
        while loop.queue_depth:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not job.started


@pytest.mark.parametrize("token_id", [6, 7])
async def test_unsound_logits_end_that_work_alone(
    loop: Loop, model: GatedModel, token_id: int
) -> None:
    blocker = loop.submit(Job([1]))
    await model.wait_until_running()
    bad, good = Job([token_id]), Job([1], tokens=2)
    tickets = loop.submit(bad), loop.submit(good)
    model.let_run()
    await blocker.result()
    with pytest.raises(NumericalFailure):
        await tickets[0].result()
    assert (await tickets[1].result()).result == [2, 3]
    assert bad.closed
    assert bad.length == 0, "state that gave NaN is not used again"


@pytest.mark.parametrize("prompt", [[], [1]])
async def test_an_error_in_one_work_is_its_own(
    loop: Loop, model: GatedModel, prompt: list[int]
) -> None:
    model.let_run()
    bad = loop.submit(Job(prompt, error=RuntimeError("secret path /etc")))
    good = loop.submit(Job([1]))
    with pytest.raises(InternalFailure) as failure:
        await bad.result()
    assert "secret" not in failure.value.message
    assert (await good.result()).result == [2]


async def test_errors_for_callers_pass_unchanged(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    with pytest.raises(InvalidRequest, match="field"):
        await result_of(loop, Job([1], error=InvalidRequest("field", "something else")))


async def test_a_failing_forward_fails_its_batch_and_nothing_else(
    loop: Loop, model: GatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ScriptedModel, chunk: Chunk) -> torch.Tensor:
        chunk.sequence.reserve(2)
        chunk.sequence.append([3, 3])
        raise RuntimeError("out of memory")

    job = Job([1])
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "_read", fail)
        ticket = loop.submit(job)
        model.let_run()
        with pytest.raises(InternalFailure):
            await ticket.result()
    assert job.length == 0, "what a failed forward left is forgotten"
    assert loop.alive
    assert (await result_of(loop, Job([1]))).result == [2]


async def test_what_is_too_long_is_refused_before_any_forward(
    loop: Loop, model: GatedModel
) -> None:
    model.let_run()
    with pytest.raises(OutOfRange, match=str(CONTEXT)):
        await result_of(loop, Job([1] * (CONTEXT + 1)))
    assert model.batches == []
    assert (await result_of(loop, Job([1] * CONTEXT))).result == [2]


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


async def test_an_empty_chunk_fails_its_own_work(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    with pytest.raises(InternalFailure):
        await result_of(loop, Job([]))
    assert (await result_of(loop, Job([1]))).result == [2]


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


async def test_many_generations_at_once_give_each_its_own(loop: Loop, model: GatedModel) -> None:
    model.let_run(10_000)
    done = await asyncio.gather(
        *(result_of(loop, Job([number % 3], tokens=1 + number % 3)) for number in range(200))
    )
    for number, each in enumerate(done):
        start = number % 3
        assert each.result == [start + 1 + step for step in range(1 + number % 3)]
