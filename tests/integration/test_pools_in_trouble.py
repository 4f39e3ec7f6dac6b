"""Callers that come and go while replicas fail: in the end nothing is counted or held any more."""

from __future__ import annotations

import asyncio
from random import Random

from grpc import StatusCode, aio

from coordinator.openings import MOST_OPENINGS
from outrider.testing.cluster import WorkerPlan, token_request
from outrider.testing.exactness.pool_troubles import WEIGHTS, PoolTroubles
from outrider.testing.pools import PooledCluster, running_pools
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import table

FOR_S = 3.0
CALLERS = 12
SAMPLING = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)
LAWFUL_ENDS = {StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED, StatusCode.UNAVAILABLE}


def model() -> TableModel:
    return table(step_time_s=0.002)


async def come_and_go(cluster: PooledCluster, rolls: Random) -> StatusCode:
    """One caller: it stays to the end, has a deadline, or leaves whenever it likes."""
    asked = token_request(
        [rolls.randrange(8) for _ in range(5)],
        max_new_tokens=rolls.choice((1, 5, 40, 120)),
        sampling=SAMPLING,
        speculation=generation_pb2.SpeculationParams(draft_length=rolls.choice((0, 2, 4))),
    )
    call = cluster.stub.Generate(asked, timeout=rolls.choice((None, None, rolls.uniform(0, 0.5))))
    if rolls.random() < 0.4:
        asyncio.get_running_loop().call_later(rolls.uniform(0, 0.4), call.cancel)
    try:
        async for _ in call:
            pass
    except (aio.AioRpcError, asyncio.CancelledError):
        pass
    return await call.code()


async def status(
    cluster: PooledCluster,
) -> generation_pb2.GenerationServiceGetStatusResponse:
    return await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())


async def test_nothing_is_left_behind() -> None:
    rolls = Random(3)
    plans = [WorkerPlan(model(), weights_digest=WEIGHTS) for _ in range(4)]
    troubles = PoolTroubles(
        targets=(model,), drafts=(model,), every_s=(0.0, 0.2), drain_s=0.1, silence_s=0.1
    )
    ends: list[StatusCode] = []
    async with running_pools(
        plans[:2], plans[2:], target_wait_s=20.0, max_generations=8
    ) as cluster:
        pools = cluster.coordinator.pools
        clock = asyncio.get_running_loop().time
        until = clock() + FOR_S

        async def caller() -> None:
            while clock() < until:
                ends.append(await come_and_go(cluster, rolls))

        befalling = asyncio.create_task(troubles(cluster))
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        befalling.cancel()
        await asyncio.wait([befalling])
        replicas = [*pools.targets.all, *pools.drafts.all]
        async with asyncio.timeout(60):
            while (  # noqa: ASYNC110
                any(one.generations for one in replicas)
                or any(one.openings._free != MOST_OPENINGS for one in replicas)
                or pools._endings
            ):
                await asyncio.sleep(0.02)
        told = await status(cluster)
    assert told.running == told.waiting == 0
    assert told.speculation.target_moves > 0
    assert set(ends) <= {StatusCode.OK, *LAWFUL_ENDS}
    assert ends.count(StatusCode.OK) > len(ends) // 10
