"""Drafts that are missing, slow or dying: they cost speed, never the output."""

from __future__ import annotations

import asyncio

import pytest
from grpc import aio

from coordinator.main import CoordinatorServer
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import (
    LOOPBACK,
    Cluster,
    WorkerPlan,
    running_cluster,
    start_draft,
    start_target,
)
from outrider.v1 import (
    common_pb2,
    generation_pb2,
)
from tests.integration.undisturbed import (
    LENGTH,
    alone,
    assert_undisturbed,
    request,
    table,
)


async def test_a_draft_that_is_not_there_costs_nothing() -> None:
    async with running_cluster(WorkerPlan(table()), None) as cluster:
        settings = CoordinatorSettings(
            listen=LOOPBACK,
            target_address=cluster.target.rpc.address,
            draft_address="127.0.0.1:9",
        )
        coordinator = CoordinatorServer(settings)
        await coordinator.start()
        async with Cluster(coordinator, cluster.target, None) as lonely:
            await coordinator.become_ready()
            output = await lonely.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_missed_rounds > 0


async def test_a_hanging_draft_costs_one_deadline() -> None:
    hanging = table(step_time_s=3.0)
    async with running_cluster(
        WorkerPlan(table()), WorkerPlan(hanging), draft_timeout_ms=100
    ) as cluster:
        output = await asyncio.wait_for(cluster.generate(request()), 10)
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_missed_rounds == LENGTH - 2


async def test_a_slow_draft_is_used_when_it_answers() -> None:
    slow = table(step_time_s=0.02)
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.01)), WorkerPlan(slow), draft_timeout_ms=30
    ) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    speculation = output.summary.speculation
    assert speculation.draft_missed_rounds > 0
    assert speculation.stale_proposals > 0


async def test_a_draft_that_stops_and_comes_back_is_used_again() -> None:
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.01)), WorkerPlan(table(step_time_s=0.001))
    ) as cluster:
        draft = cluster.draft
        assert draft is not None
        received: list[int] = []
        accepted_before = 0
        long_request = request()
        long_request.max_new_tokens = 400
        async for response in cluster.stub.Generate(long_request):
            if response.HasField("summary"):
                speculation = response.summary.speculation
                break
            received.extend(response.chunk.token_ids)
            if len(received) > 30 and draft is cluster.draft:
                accepted_before = len(received)
                await draft.stop(0)
                cluster.draft = await start_draft(
                    WorkerPlan(table(step_time_s=0.001), address=draft.rpc.address)
                )
        long_request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
        expected = (await cluster.generate(long_request)).token_ids
    assert received == expected
    assert accepted_before
    assert speculation.draft_missed_rounds > 0
    # More than what the first draft can have given: the second was used too.
    assert speculation.accepted_tokens > accepted_before


async def test_an_untrusted_draft_is_verified_by_the_point_mass_rule() -> None:
    async with running_cluster(
        WorkerPlan(table()), WorkerPlan(table()), draft_trust="untrusted"
    ) as cluster:
        sampled = request(
            sampling=common_pb2.SamplingParams(
                seed=5, verification=common_pb2.VERIFICATION_REJECTION
            )
        )
        output = await cluster.generate(sampled)
    speculation = output.summary.speculation
    assert len(output.token_ids) == LENGTH
    assert 0 < speculation.accepted_tokens < speculation.draft_tokens
    assert speculation.draft_invalid_rounds == 0


async def test_a_target_that_restarts_serves_the_request_sent_again() -> None:
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.005)), WorkerPlan(table())
    ) as cluster:
        received: list[int] = []
        stopped = False
        with pytest.raises(aio.AioRpcError) as failure:
            async for response in cluster.stub.Generate(request()):
                received.extend(response.chunk.token_ids)
                if len(received) > 10 and not stopped:
                    stopped = True
                    await cluster.target.stop(0)
        assert failure.value.code().name == "UNAVAILABLE"
        cluster.target = await start_target(WorkerPlan(table(), address=cluster.target.rpc.address))
        for _ in range(100):
            try:
                rest = await cluster.generate(request(output_token_ids=received))
                break
            except aio.AioRpcError as error:
                assert error.code().name == "UNAVAILABLE"
                await asyncio.sleep(0.1)
    assert received + rest.token_ids == await alone()
    assert rest.chunks[0].offset == len(received)


async def test_a_cancelled_draft_call_costs_the_round_its_drafts() -> None:
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        received: list[int] = []
        cancelled = False
        async for response in cluster.stub.Generate(request()):
            if response.HasField("summary"):
                speculation = response.summary.speculation
                break
            received.extend(response.chunk.token_ids)
            if len(received) > 10 and not cancelled:
                cancelled = True
                for task in asyncio.all_tasks():
                    if "DraftStream._guarded" in repr(task.get_coro()):
                        task.cancel()
                (draft,) = cluster.coordinator.pools.drafts.all
                await draft.worker.channel.close()
    assert received == await alone()
    assert cancelled
    assert speculation.draft_missed_rounds > 0
