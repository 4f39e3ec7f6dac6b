"""Calls and tasks inside the coordinator that are cancelled by whatever: callers are not left
waiting (FAULTS K5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator.target_stream import TargetStream
from outrider.testing.cluster import Output, WorkerPlan
from outrider.testing.pools import PooledCluster, running_pools
from tests.integration.undisturbed import alone, assert_undisturbed, request, table

WITHIN_S = 60.0


def plan() -> WorkerPlan:
    return WorkerPlan(table(step_time_s=0.004), weights_digest="the same")


def draft_tasks() -> None:
    """The readers and writers of draft streams."""
    for task in asyncio.all_tasks():
        if "DraftStream._guarded" in repr(task.get_coro()):
            task.cancel()


def _nothing() -> None:
    return


async def generate(cluster: PooledCluster, trouble: Callable[[], None]) -> Output:
    output = Output()
    async with asyncio.timeout(WITHIN_S):
        async for response in cluster.stub.Generate(request()):
            if response.HasField("summary"):
                output.summary = response.summary
                break
            output.chunks.append(response.chunk)
            if len(output.token_ids) > 10:
                now, trouble = trouble, _nothing
                now()
    return output


async def test_a_draft_whose_tasks_are_cancelled_is_opened_anew() -> None:
    expected = await alone()
    async with running_pools([plan()], [plan(), plan()]) as cluster:
        output = await generate(cluster, draft_tasks)
    assert_undisturbed(output, expected)
    assert output.summary.speculation.draft_moves == 1


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_target_whose_call_is_cancelled_is_opened_anew(
    monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    streams: list[TargetStream] = []
    begin = TargetStream.__init__

    def noted(self: TargetStream, *parts: object, **others: object) -> None:
        begin(self, *parts, **others)  # type: ignore[arg-type]
        streams.append(self)

    def cancelled() -> None:
        streams[-1].call.cancel()

    expected = await alone()
    monkeypatch.setattr(TargetStream, "__init__", noted)
    async with running_pools([plan() for _ in range(replicas)], [plan()]) as cluster:
        output = await generate(cluster, cancelled)
    assert_undisturbed(output, expected)
    assert output.summary.speculation.target_moves >= 1
