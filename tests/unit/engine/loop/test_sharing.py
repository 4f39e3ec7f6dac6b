"""Generations that share steps: drafts of any depth, and rounds that come back in time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from outrider.engine.gathering import Gathering
from outrider.engine.loop import LoopOptions, ModelLoop, NoGathering, WaitForReturns
from outrider.engine.model import Chunk
from outrider.engine.work import Answer, Work
from outrider.testing.scripted import ScriptedModel
from tests.unit.engine.loop.counting import (
    CONTEXT,
    VOCABULARY,
    GatedModel,
    Job,
    Loop,
    counting_on,
    logits,
)

GENERATIONS = 6
DRAFT_LENGTH = 5


async def test_drafts_of_many_generations_take_as_many_forwards_as_one(
    loop: Loop, model: GatedModel
) -> None:
    blocker = loop.submit(Job([1]))
    await model.wait_until_running()
    tickets = [loop.submit(Job([1, 2], tokens=DRAFT_LENGTH)) for _ in range(GENERATIONS)]
    model.let_run()
    for ticket in tickets:
        assert (await ticket.result()).result == [3, 4, 5, 1, 2]
    assert (await blocker.result()).result == [2]
    assert loop.forwards == 1 + DRAFT_LENGTH


async def test_a_draft_joins_others_that_are_further_on(loop: Loop, model: GatedModel) -> None:
    first = loop.submit(Job([1], tokens=4))
    await model.wait_until_running()
    model.let_run(1)
    await model.wait_until_running()
    second = loop.submit(Job([2], tokens=4))
    model.let_run()
    assert (await first.result()).result == [2, 3, 4, 5]
    assert (await second.result()).result == [3, 4, 5, 1]
    assert loop.forwards == 6
    assert model.batches == [[1], [1], [1, 1], [1, 1], [1], [1]]


class TimedModel(ScriptedModel):
    """Takes 5 ms for a step and half a millisecond for each token."""

    def __init__(self) -> None:
        super().__init__(
            logits,
            vocabulary_size=VOCABULARY,
            context_length=CONTEXT,
            step_time_s=0.005,
            row_time_s=0.0005,
        )


def one_token_on(model: ScriptedModel) -> Callable[[int], Work[int]]:
    def work(rows: int) -> Work[int]:
        got = yield Chunk(model.new_sequence(), [1] * rows, rows=1)
        return int(got[0].argmax())

    return work


@asynccontextmanager
async def running(model: ScriptedModel, gathering: Gathering) -> AsyncIterator[ModelLoop[int, int]]:
    loop: ModelLoop[int, int] = ModelLoop(
        model, one_token_on(model), gathering=gathering, count_outputs=lambda result: 1
    )
    loop.start()
    try:
        yield loop
    finally:
        await loop.close()


async def generate(loop: ModelLoop[int, int], stream: str, *, rounds: int) -> None:
    """Rounds of one generation, each a moment after the answer to the one before."""
    for number in range(rounds):
        await loop.submit(1 + number % 3, stream=stream).result()
        await asyncio.sleep(0.001)
    loop.forget(stream)


class Gate(NoGathering):
    """Holds steps back until it is opened."""

    def __init__(self) -> None:
        self.until = time.perf_counter() + 3600.0
        self.seen: list[str] = []

    def arrived(self, stream: str, *, now: float) -> None:
        self.seen.append(f"{stream} came")

    def answered(self, stream: str, *, now: float) -> None:
        self.seen.append(f"{stream} was answered")

    def step_ended(self, *, step_s: float) -> None:
        self.seen.append("the step ended" if step_s > 0.0 else "?")

    def forget(self, stream: str) -> None:
        self.seen.append(f"{stream} ended")
        self.until = -math.inf


async def test_a_step_waits_while_generations_are_gathered() -> None:
    gate, model = Gate(), TimedModel()
    async with running(model, gate) as loop:
        first = loop.submit(1, stream="a")
        second = loop.submit(1, stream="b")
        assert await loop.call(lambda: 5) == 5, "calls are not held back"
        await asyncio.sleep(0.02)
        assert model.forwards == 0
        assert loop.queue_depth == 2
        loop.forget("c")
        done = [await first.result(), await second.result()]
        assert [each.timings.batch_size for each in done] == [2, 2]
        assert done[0].timings.queue_us >= 20_000
        await loop.call(lambda: None)
    assert gate.seen[:3] == ["a came", "b came", "c ended"]
    assert gate.seen[3:] == ["a was answered", "b was answered", "the step ended"]


async def test_what_waits_for_others_can_be_taken_back() -> None:
    gate, model = Gate(), TimedModel()
    async with running(model, gate) as loop:
        ticket = loop.submit(1, stream="a")
        await asyncio.sleep(0.01)
        assert await ticket.withdraw()
        loop.forget("a")
        await loop.call(lambda: None)
        assert model.forwards == 0


async def test_generations_that_come_back_are_waited_for() -> None:
    gathering = WaitForReturns()
    async with running(TimedModel(), gathering) as loop:
        names = [f"{number}" for number in range(GENERATIONS)]
        await asyncio.gather(*(generate(loop, name, rounds=10) for name in names))
        await loop.call(lambda: None)
        assert gathering.until < 0.0, "all have ended"
        await asyncio.wait_for(loop.submit(1).result(), timeout=10)


async def test_nothing_is_kept_of_a_stream_that_ends_within_a_forward() -> None:
    gathering, model = WaitForReturns(), GatedModel()
    loop: Loop = ModelLoop(model, counting_on(model), gathering=gathering)
    loop.start()
    try:
        ticket = loop.submit(Job([1]), stream="a")
        await model.wait_until_running()
        ticket.abandon()
        loop.forget("a")
        model.let_run()
        await loop.call(lambda: None)
        assert vars(gathering) == vars(WaitForReturns())
    finally:
        await loop.close()


async def test_a_row_has_a_price_once_steps_of_several_sizes_ran() -> None:
    model = TimedModel()
    async with running(model, WaitForReturns()) as loop:
        assert loop.price == 0.0
        names = [f"{number}" for number in range(GENERATIONS)]
        await asyncio.gather(*(generate(loop, name, rounds=20) for name in names))
        assert 0.0 < loop.price < 2 * GENERATIONS


async def test_there_is_no_price_where_nothing_counts_as_output(
    loop: Loop, model: GatedModel
) -> None:
    model.let_run()
    for length in (1, 30, 2, 20, 1):
        await loop.submit(Job([1] * length)).result()
    assert loop.price == 0.0


async def test_a_run_without_an_end_shares_steps_with_rounds() -> None:
    model = TimedModel()

    def work(endless: bool) -> Work[int]:
        sequence, pending = model.new_sequence(), 1
        while True:
            rows = yield Chunk(sequence, [pending], rows=1)
            pending = int(rows[0].argmax())
            if not endless:
                return pending
            sequence.rollback(0)
            yield Answer(pending)

    loop: ModelLoop[bool, int] = ModelLoop(model, work, options=LoopOptions(token_budget=1))
    loop.start()
    try:
        endless = loop.submit(True, stream="endless")
        began = time.perf_counter()
        for _ in range(10):
            await asyncio.wait_for(loop.submit(False, stream="short").result(), timeout=10)
        seconds = time.perf_counter() - began
        taken = 0
        while endless.future.done():
            endless.take()
            taken += 1
        assert taken >= 8, f"a forward takes one of them; both have their turn ({seconds:.2f} s)"
        endless.abandon()
    finally:
        await loop.close()


@pytest.mark.parametrize("count", [200])
async def test_many_streams_at_once(count: int) -> None:
    async with running(ScriptedModel(logits, vocabulary_size=VOCABULARY), WaitForReturns()) as loop:
        await asyncio.gather(*(generate(loop, f"{name}", rounds=3) for name in range(count)))
        assert loop.queue_depth == 0
