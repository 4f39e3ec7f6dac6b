"""Deadlines and cancels reach both workers: no compute after, and nothing held (FAULTS K11, G9)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from grpc import aio

from draft_service.servicer import DraftServicer
from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, generation_pb2, model_pb2, model_pb2_grpc
from target_service.servicer import TargetServicer
from tests.integration.undisturbed import table

STEP_S = 0.005
DEADLINE_S = 1.0
RELEASE_S = 60.0
AT_ONCE = 16
MANY = 62
"""With the first ones more than a thousand go away."""
SAMPLING = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)
ALONE = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
DRAFTED = generation_pb2.SpeculationParams(draft_length=3)


def record_time_left(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float | None]]:
    """What each stream that a worker begins to serve has left, in seconds."""
    seen: dict[str, list[float | None]] = {"target": [], "draft": []}

    def recorded(name: str, serve: Callable[..., AsyncIterator[Any]]) -> Any:
        async def wrapped(self: Any, requests: Any, context: Any) -> AsyncIterator[Any]:
            seen[name].append(context.time_remaining())
            async for response in serve(self, requests, context):
                yield response

        return wrapped

    monkeypatch.setattr(TargetServicer, "Verify", recorded("target", TargetServicer.Verify))
    monkeypatch.setattr(DraftServicer, "Draft", recorded("draft", DraftServicer.Draft))
    return seen


async def handles_in_use(cluster: Cluster) -> int:
    """Of both workers."""
    total = 0
    for worker in (cluster.target, cluster.draft):
        if worker is not None:
            async with aio.insecure_channel(worker.rpc.address) as channel:
                stub = model_pb2_grpc.ModelServiceStub(channel)
                status = await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())
                total += status.handles_in_use + status.kv_blocks_in_use
    return total


async def all_is_free(cluster: Cluster, *models: TableModel) -> None:
    """Models rest and nothing is in use."""
    async with asyncio.timeout(RELEASE_S):
        while await handles_in_use(cluster):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    forwards = [model.forwards for model in models]
    await asyncio.sleep(20 * STEP_S)
    assert [model.forwards for model in models] == forwards


@pytest.mark.parametrize("speculation", [ALONE, DRAFTED], ids=["alone", "drafted"])
async def test_workers_get_what_is_left_of_the_deadline_and_stop_at_it(
    monkeypatch: pytest.MonkeyPatch, speculation: generation_pb2.SpeculationParams
) -> None:
    seen = record_time_left(monkeypatch)
    target, draft = table(step_time_s=STEP_S), table(step_time_s=STEP_S)
    request = token_request(
        [1, 2, 3], max_new_tokens=3000, sampling=SAMPLING, speculation=speculation
    )
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        with pytest.raises(aio.AioRpcError) as late:
            async for _ in cluster.stub.Generate(request, timeout=DEADLINE_S):
                pass
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await all_is_free(cluster, target, draft)
    assert len(seen["target"]) == 1
    assert len(seen["draft"]) == (speculation is DRAFTED)
    for left_s in (*seen["target"], *seen["draft"]):
        assert left_s is not None
        assert left_s < 2 * DEADLINE_S, "time is rounded on the way"


async def test_without_a_deadline_workers_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = record_time_left(monkeypatch)
    request = token_request([1, 2, 3], max_new_tokens=5, sampling=SAMPLING)
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        await cluster.generate(request)
    assert seen["target"] == [None]


async def test_clients_that_go_away_leave_no_task_and_no_handle() -> None:
    """At any moment: before the first token, in the middle, as the answer ends."""
    rolls = random.Random(1)
    target, draft = table(step_time_s=0.001), table()
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:

        async def come_and_go(number: int) -> None:
            speculation = DRAFTED if number % 2 else ALONE
            request = token_request(
                [1, 2, number % 8], max_new_tokens=30, sampling=SAMPLING, speculation=speculation
            )
            call = cluster.stub.Generate(request)
            await asyncio.sleep(rolls.uniform(0.0, 0.1))
            call.cancel()

        await asyncio.gather(*(come_and_go(number) for number in range(AT_ONCE)))
        await all_is_free(cluster, target, draft)
        before = len(asyncio.all_tasks())
        for _ in range(MANY):
            await asyncio.gather(*(come_and_go(number) for number in range(AT_ONCE)))
        await all_is_free(cluster, target, draft)
        # Looks at the pools come and go all the time.
        async with asyncio.timeout(RELEASE_S):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
