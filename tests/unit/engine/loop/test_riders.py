"""Chunks that ride along with a work's own: they share its forward, and take nobody's room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import torch

from outrider.engine.loop import LoopOptions, ModelLoop
from outrider.engine.model import Chunk
from outrider.engine.work import Rider, Together, Work
from outrider.errors import NumericalFailure
from tests.unit.engine.loop.counting import GatedModel, Job

BLOCK = 16


def riding(model: GatedModel, job: Job) -> Work[list[int | None]]:
    """Reads the prompt, then forks as many riders as there are tokens; their choices.

    The last id of rider i is i; its fork has all of the prompt.
    """
    sequence = model.new_sequence()
    twins = []
    try:
        yield Chunk(sequence, job.prompt, rows=1)
        twins = [sequence.fork() for _ in range(job.tokens)]
        riders = [Rider(Chunk(twin, [place], rows=1)) for place, twin in enumerate(twins)]
        lead = Chunk(sequence, [1], rows=1) if job.each else Chunk(sequence, [], rows=0)
        rows = yield Together(lead, riders)
        assert len(rows) == job.each
        return [_choice(rider.rows) for rider in riders]
    finally:
        for twin in [*twins, sequence]:
            twin.clear()


def _choice(rows: torch.Tensor | None) -> int | None:
    return int(rows[0].argmax()) if rows is not None and len(rows) else None


RidingLoop = ModelLoop[Job, list[int | None]]


@asynccontextmanager
async def started(model: GatedModel, **options: int) -> AsyncIterator[RidingLoop]:
    loop: RidingLoop = ModelLoop(model, partial(riding, model), options=LoopOptions(**options))
    loop.start()
    try:
        yield loop
    finally:
        model.let_run()
        await loop.close()


@pytest.mark.parametrize("lead", [True, False])
async def test_riders_share_a_forward(lead: bool) -> None:
    model = GatedModel()
    model.let_run()
    async with started(model) as loop:
        done = await loop.submit(Job([1, 2], tokens=4, each=lead)).result()
    assert done.result == [1, 2, 3, 4]
    assert model.batches == [[2], [int(lead), 1, 1, 1, 1]]
    assert done.timings.batch_size == 1
    assert model.pool.in_use == 0


async def test_a_rider_whose_logits_are_no_numbers_spoils_nothing_else() -> None:
    model = GatedModel()
    model.let_run()
    async with started(model) as loop:
        done = await loop.submit(Job([1, 2], tokens=8, each=True)).result()
    assert done.result == [1, 2, 3, 4, 5, 1, None, None]


async def test_riders_go_with_the_work_that_fails() -> None:
    model = GatedModel()
    model.let_run()
    async with started(model) as loop:
        with pytest.raises(NumericalFailure):
            await loop.submit(Job([7], tokens=3)).result()
    assert model.pool.in_use == 0


async def test_riders_beyond_the_budget_are_left_out() -> None:
    model = GatedModel()
    model.let_run()
    async with started(model, token_budget=4) as loop:
        done = await loop.submit(Job([1, 2], tokens=6, each=True)).result()
    assert done.result == [1, 2, 3, None, None, None]


@pytest.mark.parametrize("blocks", [2, 3, 4])
async def test_riders_take_only_room_to_spare(blocks: int) -> None:
    """The prompt fills part of a block, so each fork has to copy it."""
    model = GatedModel(blocks=blocks)
    model.let_run()
    async with started(model) as loop:
        done = await loop.submit(Job([1, 2], tokens=6, each=True)).result()
    # The chain itself copies the block that the forks share.
    assert sum(choice is not None for choice in done.result) == blocks - 2
    assert model.pool.in_use == 0


async def test_nobody_rides_while_somebody_waits_for_room() -> None:
    model = GatedModel(blocks=8)
    async with started(model) as loop:
        first = loop.submit(Job([1, 2], tokens=2, each=True))
        await model.wait_until_running()
        waiting = loop.submit(Job([1] * (8 * BLOCK - 1), tokens=0, each=True))
        model.let_run()
        assert (await first.result()).result == [None, None]
        assert (await waiting.result()).result == []
    assert model.pool.in_use == 0
