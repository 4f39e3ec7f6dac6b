"""Callers whose time is up: that is no fault of the workers."""

from __future__ import annotations

import asyncio
import random

from grpc import StatusCode, aio

from outrider.testing.cluster import WorkerPlan
from outrider.testing.pools import running_pools
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import PROMPT, table

CALLS = 60


async def test_replicas_are_not_blamed_for_deadlines() -> None:
    rolls = random.Random(1)
    target = WorkerPlan(table(step_time_s=0.004), weights_digest="the same")
    asked = generation_pb2.GenerateRequest(
        tokens=generation_pb2.TokenPrompt(token_ids=PROMPT),
        max_new_tokens=3000,
        sampling=common_pb2.SamplingParams(temperature=0.0, ignore_eos=True),
        speculation=generation_pb2.SpeculationParams(draft_length=3),
    )
    async with running_pools([target, target], [WorkerPlan(table())]) as cluster:

        async def call() -> StatusCode | None:
            try:
                async for _ in cluster.stub.Generate(asked, timeout=rolls.uniform(0.02, 0.3)):
                    pass
            except aio.AioRpcError as error:
                return error.code()
            return None

        codes = await asyncio.gather(*(call() for _ in range(CALLS)))
        await asyncio.sleep(0.2)
        pools = cluster.coordinator.pools
        replicas = [*pools.targets.all, *pools.drafts.all]
        assert set(codes) == {StatusCode.DEADLINE_EXCEEDED}
        assert [one.failures for one in replicas] == [0, 0, 0]
        assert all(one.breaker.closed for one in replicas)
        async with asyncio.timeout(60):
            while any(one.generations for one in replicas):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
