"""Pools without room: callers hear of it soon, and replicas are not asked over and over."""

from __future__ import annotations

import asyncio

import pytest
from grpc import StatusCode, aio

from outrider.testing.cluster import WorkerPlan
from outrider.testing.pools import running_pools
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import PROMPT, alone, assert_undisturbed, request, table

OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
SAMPLING = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)
LONG = generation_pb2.GenerateRequest(
    tokens=generation_pb2.TokenPrompt(token_ids=PROMPT),
    max_new_tokens=3000,
    sampling=SAMPLING,
    speculation=OFF,
)


def small_target() -> WorkerPlan:
    return WorkerPlan(table(step_time_s=0.005), weights_digest="the same", max_handles=1)


async def test_a_caller_hears_soon_that_every_target_is_full() -> None:
    async with running_pools([small_target(), small_target()]) as cluster:
        holders = [cluster.stub.Generate(LONG) for _ in range(2)]
        for holder in holders:
            await holder.read()
        with pytest.raises(aio.AioRpcError) as caught:
            async with asyncio.timeout(60):
                await cluster.generate(request(speculation=OFF))
        for holder in holders:
            holder.cancel()
    assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED


async def test_full_drafts_are_not_asked_in_every_round() -> None:
    expected = await alone()
    target = WorkerPlan(table(step_time_s=0.005), weights_digest="the same")
    full = [WorkerPlan(table(), max_handles=1) for _ in range(2)]
    drafted = generation_pb2.GenerateRequest()
    drafted.CopyFrom(LONG)
    drafted.speculation.CopyFrom(generation_pb2.SpeculationParams(draft_length=3))
    async with running_pools([target], full) as cluster:
        holders = [cluster.stub.Generate(drafted) for _ in range(2)]
        async with asyncio.timeout(60):
            while any(cluster.replica(one).generations == 0 for one in cluster.drafts):
                for holder in holders:
                    await holder.read()
        before = sum(cluster.replica(one).placed for one in cluster.drafts)
        output = await cluster.generate(request())
        after = sum(cluster.replica(one).placed for one in cluster.drafts)
        for holder in holders:
            holder.cancel()
    assert_undisturbed(output, expected)
    assert 0 < after - before <= 8
