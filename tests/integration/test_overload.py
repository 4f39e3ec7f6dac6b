"""More requests than places: some wait, the rest is refused at once and told when to come again."""

from __future__ import annotations

import asyncio

from grpc import StatusCode, aio

from outrider.rpc.status import remote_error
from outrider.testing.cluster import Output, WorkerPlan, running_cluster
from outrider.v1 import generation_pb2
from tests.integration.undisturbed import alone, assert_undisturbed, request, table


async def test_some_wait_and_the_rest_is_refused() -> None:
    expected = await alone()
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.002)),
        WorkerPlan(table()),
        max_generations=2,
        max_waiting=3,
    ) as cluster:
        calls = [asyncio.create_task(cluster.generate(request())) for _ in range(20)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    served = [one for one in done if isinstance(one, Output)]
    refused = [remote_error(one) for one in done if isinstance(one, aio.AioRpcError)]
    assert len(served) == 5
    for output in served:
        assert_undisturbed(output, expected)
    assert {one.code for one in refused} == {StatusCode.RESOURCE_EXHAUSTED}
    assert {one.reason for one in refused} == {"NO_CAPACITY"}
    assert all(one.retry_after_s is not None and one.retry_after_s > 0 for one in refused)
    assert (status.running, status.waiting, status.refused) == (0, 0, 15)
