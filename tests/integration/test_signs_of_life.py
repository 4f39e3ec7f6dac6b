"""A worker that is busy says so: a caller takes three missed signs of life for its death."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from grpc import aio

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.engine.loop_options import LoopOptions
from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_draft, start_target
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import (
    DraftStream,
    VerifyStream,
    draft_round,
    open_draft,
    open_verify,
    verify_round,
)
from outrider.v1 import common_pb2
from outrider.worker import rounds, signs_of_life
from outrider.worker.server import WorkerServer
from target_service.kind import target_kind

PROMPT = [1, 2, 3]
SAMPLED = common_pb2.SamplingParams(seed=5)
INTERVAL_S = 0.06
FORWARD_S = 0.5
"""Of the model: eight signs of life."""


Server = WorkerServer[Any, Any]
Start = Callable[[], Awaitable[Server]]


def slow_model() -> Model:
    return TableModel(random_table(seed=1), step_time_s=FORWARD_S)


async def target_on_a_thread() -> Server:
    return await start_target(WorkerPlan(slow_model()))


async def target_in_a_process() -> Server:
    return await start_worker_process(target_kind(max_draft_length=16), slow_model)


async def draft_on_a_thread() -> Server:
    return await start_draft(WorkerPlan(slow_model()))


async def draft_in_a_process() -> Server:
    return await start_worker_process(draft_kind(CandidateCut()), slow_model)


TARGETS = [target_on_a_thread, pytest.param(target_in_a_process, marks=pytest.mark.slow)]
DRAFTS = [draft_on_a_thread, pytest.param(draft_in_a_process, marks=pytest.mark.slow)]
opened_verify = partial(open_verify, sampling=SAMPLED, prompt_length=len(PROMPT))
opened_draft = partial(open_draft, derived_seed=7, prompt_length=len(PROMPT))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (signs_of_life, rounds):
        monkeypatch.setattr(module, "SIGN_INTERVAL_S", INTERVAL_S)


@asynccontextmanager
async def serving(starting: Awaitable[Server]) -> AsyncIterator[tuple[Server, aio.Channel]]:
    server = await starting
    try:
        async with open_channel(server.rpc.address) as channel:
            yield server, channel
    finally:
        await server.stop(0)


async def signs_before_an_answer(stream: VerifyStream | DraftStream) -> list[tuple[int, int]]:
    """Round numbers and times of the signs of life before the next answer."""
    signs = []
    while True:
        answer = await asyncio.wait_for(stream.read(), 30)
        if not answer.HasField("progress"):
            return signs
        signs.append((answer.round_number, answer.progress.elapsed_ms))


def assert_steady(signs: list[tuple[int, int]], *, number: int) -> None:
    """Those of that round rise, and are about as many as fit into a forward."""
    times = [elapsed for of, elapsed in signs if of == number]
    assert len(times) >= 4
    assert all(before < after for before, after in pairwise(times))
    assert times[0] >= 1000 * INTERVAL_S * 0.9


@pytest.mark.parametrize("start", TARGETS)
async def test_a_target_at_work_in_a_long_forward(start: Start) -> None:
    async with serving(start()) as (_, channel):
        stream = await opened_verify(channel)
        await stream.send(verify_round(7, PROMPT))
        assert_steady(await signs_before_an_answer(stream), number=7)


@pytest.mark.parametrize("start", [target_on_a_thread, target_in_a_process])
async def test_a_target_that_cannot_open_yet(start: Start) -> None:
    """The model thread is in the forward of another, and then in the forward of both."""
    async with serving(start()) as (_, channel):
        busy = await opened_verify(channel)
        await busy.send(verify_round(1, PROMPT, decode=2))
        await asyncio.sleep(0.1)
        late = await opened_verify(channel)
        await late.send(verify_round(3, PROMPT))
        signs = await signs_before_an_answer(late)
        assert_steady(signs, number=0)
        assert_steady(signs, number=3)
        assert [number for number, _ in signs] == sorted(number for number, _ in signs)


@pytest.mark.parametrize("start", DRAFTS)
async def test_a_draft_that_cannot_open_yet(start: Start) -> None:
    async with serving(start()) as (_, channel):
        busy = await opened_draft(channel)
        await busy.send(draft_round(1, PROMPT, until=len(PROMPT) + 3))
        await asyncio.sleep(0.1)
        late = await opened_draft(channel)
        await late.send(draft_round(3, PROMPT, until=len(PROMPT) + 1))
        signs = await signs_before_an_answer(late)
        assert_steady(signs, number=0)
        assert_steady(signs, number=3)


@pytest.mark.parametrize("start", TARGETS)
async def test_a_run_whose_next_token_is_far(start: Start) -> None:
    """Its limit is being raised meanwhile, which has to wait for the model thread too."""
    async with serving(start()) as (_, channel):
        stream = await opened_verify(channel)
        await stream.send(verify_round(1, PROMPT, decode=3))
        first = await stream.read()
        while first.HasField("progress"):
            first = await stream.read()
        token_ids = [*PROMPT, *first.verdict.output_token_ids]
        await stream.send(verify_round(2, token_ids, base=len(PROMPT), decode=6))
        signs = await signs_before_an_answer(stream)
        # On a busy machine the second round may be there before that forward begins.
        assert {number for number, _ in signs} <= {1, 2}
        assert_steady(signs, number=statistics.mode(number for number, _ in signs))
        assert_steady(await signs_before_an_answer(stream), number=2)


async def test_a_draft_that_is_told_to_begin_elsewhere() -> None:
    async with serving(draft_on_a_thread()) as (_, channel):
        stream = await opened_draft(channel)
        await stream.send(draft_round(1, PROMPT, until=len(PROMPT) + 3))
        await asyncio.sleep(0.2)
        await stream.send(draft_round(2, [*PROMPT, 4], until=len(PROMPT) + 2))
        signs = await signs_before_an_answer(stream)
        assert len(signs) >= 4


async def test_a_round_that_waits_for_room() -> None:
    table = TableModel(random_table(seed=1), blocks=4)
    plan = WorkerPlan(table, options=LoopOptions(admission_wait_s=60))
    async with serving(start_target(plan)) as (_, channel):
        holder = await open_verify(channel, sampling=SAMPLED, prompt_length=50)
        await holder.ask(verify_round(1, [place % 8 for place in range(50)]))
        late = await open_verify(channel, sampling=SAMPLED, prompt_length=20)
        await late.send(verify_round(1, [3, *(place % 8 for place in range(19))]))
        waiting = asyncio.create_task(signs_before_an_answer(late))
        await asyncio.sleep(8 * INTERVAL_S)
        assert not waiting.done()
        await holder.half_close()
        assert_steady(await waiting, number=1)


async def test_rounds_that_keep_coming_silence_nothing() -> None:
    """What arrives does not put the next sign of life off."""
    async with serving(target_on_a_thread()) as (_, channel):
        stream = await opened_verify(channel)
        await stream.send(verify_round(1, PROMPT))

        async def send_on(stream: VerifyStream) -> None:
            for number in range(2, 40):
                await asyncio.sleep(INTERVAL_S / 3)
                await stream.send(verify_round(number, PROMPT))

        sending = asyncio.create_task(send_on(stream))
        signs = 0
        while not (answer := await stream.read()).HasField("verdict"):
            signs += answer.HasField("progress")
        assert answer.round_number == 1
        assert signs >= 4
        sending.cancel()


async def test_a_caller_that_leaves_while_it_waits_leaves_nothing() -> None:
    async with serving(target_on_a_thread()) as (server, channel):
        busy = await opened_verify(channel)
        await busy.send(verify_round(1, PROMPT))
        await asyncio.sleep(0.1)
        late = await opened_verify(channel)
        assert (await late.read()).HasField("progress")
        late.call.cancel()
        with pytest.raises((asyncio.CancelledError, aio.AioRpcError)):
            await late.read()
        await signs_before_an_answer(busy)
        await busy.half_close()
        status = await server.runtime.status()
        assert (status.open_streams, status.handles_in_use) == (0, 0)
