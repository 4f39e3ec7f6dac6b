"""Many generations on the same workers: nothing of one is left for the next, or for the worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
LONG = 120
GREEDY = common_pb2.SamplingParams(temperature=0)
COUPLED = common_pb2.SamplingParams(seed=5)
SPECULATING = generation_pb2.SpeculationParams(draft_length=3)


def prompt(number: int, length: int) -> list[int]:
    """Different from any other number's."""
    digits = [number // SIZE**place % SIZE for place in range(4)]
    return [*digits, *((number + place * place) % SIZE for place in range(length - len(digits)))]


def asked(
    token_ids: list[int], sampling: common_pb2.SamplingParams, *, length: int = 12
) -> generation_pb2.GenerateRequest:
    return token_request(
        token_ids, max_new_tokens=length, sampling=sampling, speculation=SPECULATING
    )


async def holds(worker: Any) -> tuple[int, int, int]:
    """Streams, handles and blocks in use, once the last stream's end has arrived."""
    for _ in range(200):
        status = await worker.runtime.status()
        found = status.open_streams, status.handles_in_use, status.kv_blocks_in_use
        if found == (0, 0, 0):
            break
        await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
async def test_long_prompts_leave_a_small_draft_as_good_as_new(count: int) -> None:
    """Its pool has room for two of them: what stayed behind would soon take all of it."""
    table = random_table(seed=1)
    target, draft = TableModel(table), TableModel(table, blocks=18)
    acceptance = []
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        assert cluster.draft is not None
        for number in range(count):
            output = await cluster.generate(asked(prompt(number, LONG), GREEDY))
            speculation = output.summary.speculation
            assert speculation.draft_missed_rounds == 0
            acceptance.append(speculation.accepted_tokens / speculation.draft_tokens)
            if number % 20 == 0:
                assert await holds(cluster.draft) == (0, 0, 0)
        assert await holds(cluster.draft) == await holds(cluster.target) == (0, 0, 0)
    assert min(acceptance) == max(acceptance) == 1.0


@pytest.mark.parametrize("sampling", [GREEDY, COUPLED], ids=["greedy", "coupled"])
async def test_a_prompt_that_begins_like_another_is_answered_as_on_a_cold_worker(
    sampling: common_pb2.SamplingParams,
) -> None:
    """With speculation, whose draft tokens are rolled back into shared blocks."""
    shared = prompt(77, 50)
    requests = [asked([*shared, *tail], sampling, length=20) for tail in ([1], [2, 3], [1, 5, 5])]
    cold = []
    for request in requests:
        async with small_cluster() as cluster:
            cold.append((await cluster.generate(request)).token_ids)
    async with small_cluster() as cluster:
        warm = [(await cluster.generate(request)).token_ids for request in requests * 2]
        status = await cluster.target.runtime.status()
    assert warm == cold * 2
    assert status.prefix_hit_tokens > 150


@pytest.mark.parametrize("sampling", [GREEDY, COUPLED], ids=["greedy", "coupled"])
async def test_a_prompt_that_was_cancelled_midway_is_answered_as_on_a_cold_worker(
    sampling: common_pb2.SamplingParams,
) -> None:
    request = asked(prompt(5, 60), sampling, length=40)
    async with small_cluster() as cluster:
        expected = (await cluster.generate(request)).token_ids
    async with small_cluster() as cluster:
        for delay in range(12):
            reading = asyncio.create_task(cluster.generate(request))
            await asyncio.sleep(0.001 + 0.004 * delay)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert (await cluster.generate(request)).token_ids == expected
        assert await holds(cluster.target) == (0, 0, 0)
        assert await holds(cluster.draft) == (0, 0, 0)


def small_cluster() -> Any:
    """Tiny models in float64, alike, so that drafts are mostly right."""
    plans = [WorkerPlan(tiny_model(vocabulary_size=SIZE, context_length=256)) for _ in range(2)]
    return running_cluster(*plans)


async def test_a_hundred_cancelled_generations_and_room_for_ten() -> None:
    table = random_table(seed=1)
    plans = [WorkerPlan(TableModel(table, step_time_s=0.001), max_handles=10) for _ in range(2)]
    async with running_cluster(*plans) as cluster:
        expected = (await cluster.generate(asked([1, 2, 3], COUPLED))).token_ids
        for number in range(20):
            await asyncio.gather(*(_cancelled(cluster, number + one) for one in range(5)))
        assert await holds(cluster.target) == (0, 0, 0)
        assert (await cluster.generate(asked([1, 2, 3], COUPLED))).token_ids == expected


async def _cancelled(cluster: Cluster, number: int) -> None:
    call = cluster.stub.Generate(asked(prompt(number, 20), COUPLED, length=500))
    await call.read()
    call.cancel()
