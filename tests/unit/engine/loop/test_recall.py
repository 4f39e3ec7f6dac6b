"""Works that are asked to end: before the next forward, with what they have."""

from __future__ import annotations

import pytest

from outrider.engine.loop import ModelLoop
from outrider.engine.model import Chunk, Sequence
from outrider.engine.work import Recalled, Work
from outrider.errors import InternalFailure
from tests.unit.engine.loop.counting import GatedModel

RecallLoop = ModelLoop[Sequence, list[int]]


def counting_until_recalled(sequence: Sequence) -> Work[list[int]]:
    output = [1]
    try:
        while True:
            rows = yield Chunk(sequence, output[-1:], rows=1)
            output.append(int(rows[0].argmax()))
    except Recalled:
        return output


def recall(sequence: Sequence) -> None:
    sequence.recalled = True


async def test_a_recalled_work_ends_before_the_next_forward() -> None:
    model = GatedModel()
    loop: RecallLoop = ModelLoop(model, counting_until_recalled)
    loop.start()
    sequence, other = model.new_sequence(), model.new_sequence()
    ticket, untouched = loop.submit(sequence), loop.submit(other)
    await model.wait_until_running()
    call = loop.request(lambda: recall(sequence))
    model.let_run(1)
    done = await ticket.result()
    call.result()
    assert done.result == [1, 2]
    assert done.timings.batch_size == 2
    assert len(sequence.prefix) == 1
    assert not sequence.recalled
    model.let_run()
    await loop.call(lambda: recall(other))
    assert len((await untouched.result()).result) >= 2
    await loop.close()


async def test_a_work_that_does_not_know_of_it_fails() -> None:
    def ignorant(sequence: Sequence) -> Work[int]:
        yield Chunk(sequence, [1], rows=1)
        yield Chunk(sequence, [2], rows=1)
        return 0

    model = GatedModel()
    loop: ModelLoop[Sequence, int] = ModelLoop(model, ignorant)
    loop.start()
    sequence = model.new_sequence()
    ticket = loop.submit(sequence)
    await model.wait_until_running()
    loop.request(lambda: recall(sequence))
    model.let_run()
    with pytest.raises(InternalFailure):
        await ticket.result()
    await loop.close()
