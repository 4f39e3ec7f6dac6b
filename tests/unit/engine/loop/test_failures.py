"""What a failure on the model thread touches: one work, one forward, nothing else."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.loop import ModelLoop
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


async def test_rows_behind_a_bad_one_are_left_out(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    sequence = await loop.call(model.new_sequence)
    got: list[int] = []

    def look() -> Work[list[int]]:
        rows = yield Chunk(sequence, [1, 2, 7, 3], rows=4)
        got.extend(int(row.argmax()) for row in rows)
        return got

    looking: ModelLoop[None, list[int]] = ModelLoop(model, lambda _: look())
    looking.start()
    assert (await looking.submit(None).result()).result == [2, 3]
    await looking.close()


@pytest.mark.parametrize("is_lost", [True, False])
async def test_only_a_lost_device_ends_the_thread(
    loop: Loop, model: GatedModel, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    def fail(self: ScriptedModel, chunk: Chunk) -> torch.Tensor:
        raise torch.AcceleratorError("an illegal memory access was encountered")

    def synchronize() -> None:
        if is_lost:
            raise torch.AcceleratorError("an illegal memory access was encountered")

    model.let_run()
    monkeypatch.setattr(torch.accelerator, "synchronize", synchronize)
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "_read", fail)
        with pytest.raises(PoolUnavailable if is_lost else InternalFailure):
            await result_of(loop, Job([1]))
    assert loop.alive is not is_lost


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


async def test_an_empty_chunk_fails_its_own_work(loop: Loop, model: GatedModel) -> None:
    model.let_run()
    with pytest.raises(InternalFailure):
        await result_of(loop, Job([]))
    assert (await result_of(loop, Job([1]))).result == [2]


async def test_a_result_that_cannot_be_counted_harms_nobody(model: GatedModel) -> None:
    def count(result: list[int]) -> int:
        raise TypeError("secret")

    loop: Loop = ModelLoop(model, counting_on(model), count_outputs=count)
    loop.start()
    model.let_run()
    try:
        assert (await result_of(loop, Job([1]))).result == [2]
        assert (await result_of(loop, Job([1]))).result == [2]
    finally:
        await loop.close()


@pytest.mark.parametrize("token_id", [6, 7])
async def test_state_that_gave_unsound_logits_is_found_by_nobody(
    loop: Loop, model: GatedModel, token_id: int
) -> None:
    model.let_run()
    prompt = [*[1] * 60, token_id]
    with pytest.raises(NumericalFailure):
        await result_of(loop, Job(prompt))
    assert model.pool.in_use == 0
    assert model.pool.cached == 0


async def test_after_a_failed_forward_every_block_is_free(
    loop: Loop, model: GatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ScriptedModel, chunk: Chunk) -> torch.Tensor:
        raise RuntimeError("out of memory")

    long = loop.submit(Job([1] * 100))
    await model.wait_until_running()
    model.let_run(1)
    await model.wait_until_running()
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "_read", fail)
        model.let_run()
        with pytest.raises(InternalFailure):
            await long.result()
    assert model.pool.in_use == 0
    assert model.pool.cached == 0
