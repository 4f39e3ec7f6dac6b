"""Jobs that end at any moment and in any way, in little room: every block comes back."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from outrider.engine.loop import LoopOptions, ModelLoop, Withdrawn
from outrider.errors import OutriderError
from tests.unit.engine.loop.counting import GatedModel, Job, Loop, counting_on

BLOCKS = 12
STREAMS = 12
ROUNDS = 12


async def live(loop: Loop, model: GatedModel, name: int, chance: random.Random) -> None:
    """A stream: rounds on one sequence, some cut short, taken back, spoilt or superseded."""
    sequence = await loop.call(model.new_sequence)
    for _ in range(ROUNDS):
        prompt = [chance.choice([1, 1, 1, name % 5 + 1]) for _ in range(chance.randint(1, 70))]
        if chance.random() < 0.1:
            prompt[-1] = chance.choice([6, 7])
        job = Job(
            prompt,
            tokens=chance.randint(1, 8),
            sequence=sequence,
            error=RuntimeError("on purpose") if chance.random() < 0.05 else None,
            each=chance.random() < 0.3,
        )
        ticket = loop.submit(job, stream=f"{name}")
        if chance.random() < 0.4:
            await asyncio.sleep(chance.random() * 0.01)
            if not await ticket.withdraw():
                ticket.abandon()
        with suppress(OutriderError, Withdrawn, asyncio.CancelledError):
            await ticket.result()
        if chance.random() < 0.2:
            sequence = await loop.call(sequence.hand_over)
        if len(sequence.prefix) > 100 or chance.random() < 0.1:
            await loop.call(sequence.clear)
    await loop.call(sequence.revoke)
    loop.forget(f"{name}")


@pytest.mark.parametrize("seed", range(4))
async def test_every_block_comes_back(seed: int) -> None:
    model = GatedModel(blocks=BLOCKS)
    model.let_run(1_000_000)
    loop: Loop = ModelLoop(
        model, counting_on(model), options=LoopOptions(prefill_slice=16, admission_wait_s=0.2)
    )
    loop.start()
    try:
        streams = (
            live(loop, model, name, random.Random(100 * seed + name)) for name in range(STREAMS)
        )
        await asyncio.wait_for(asyncio.gather(*streams), timeout=60)
        await loop.call(lambda: None)
        assert loop.alive
        assert loop.queue_depth == 0
        assert model.pool.in_use == 0
        assert not model.pool.holders
        assert model.pool.available == BLOCKS
        assert model.pool.statistics.preemptions > 0, "or it tests less than it says"
    finally:
        await loop.close()
