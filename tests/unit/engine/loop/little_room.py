"""A model loop with room for few ids, and jobs that fill it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.engine.loop import LoopOptions, ModelLoop
from tests.unit.engine.loop.counting import GatedModel, Job, Loop, counting_on

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


async def let_go(loop: Loop, job: Job) -> None:
    """What the end of a stream does."""
    assert job.sequence is not None
    await loop.call(job.sequence.revoke)


def prompt(blocks: int, *, of: int) -> list[int]:
    """Ids that fill so many blocks up to the last place; `of` makes them differ."""
    return [of, *[1] * (blocks * BLOCK - 2)]
