"""Processes that take another's place, and clients that come one request after another."""

from __future__ import annotations

import asyncio

import pytest
from grpc import aio

from outrider.testing.cluster import (
    WorkerPlan,
    running_cluster,
    start_draft,
    start_target,
    token_request,
)
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.v1 import common_pb2, generation_pb2

PROMPT = [1, 2, 3]


def table(seed: int = 1, **options: int) -> TableModel:
    return TableModel(random_table(seed=seed), **options)


async def test_a_target_that_came_back_with_another_model_never_answers_for_the_old_one() -> None:
    large = ScriptedModel(lambda _: [0.0] * 8 + [9.0] * 192, vocabulary_size=200, context_length=64)
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        await cluster.generate(token_request(PROMPT, max_new_tokens=8))
        await cluster.target.stop(0)
        cluster.target = await start_target(WorkerPlan(large, address=cluster.target.rpc.address))
        refused = 0
        for _ in range(200):
            try:
                output = await cluster.generate(token_request(PROMPT, max_new_tokens=8))
            except aio.AioRpcError as error:
                assert error.code().name == "UNAVAILABLE"
                refused += 1
                await asyncio.sleep(0.05)
            else:
                break
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    assert refused > 0
    assert status.targets[0].model.vocabulary_size == 200
    assert all(token_id >= 8 for token_id in output.token_ids)


async def test_a_draft_that_came_back_as_another_process_is_paired_before_it_is_used() -> None:
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        assert cluster.draft is not None
        await cluster.draft.stop(0)
        cluster.draft = await start_draft(WorkerPlan(table(2), address=cluster.draft.rpc.address))
        request = token_request(
            PROMPT, max_new_tokens=20, sampling=common_pb2.SamplingParams(temperature=0)
        )
        for _ in range(200):
            output = await cluster.generate(request)
            if output.summary.speculation.draft_tokens:
                break
            assert output.summary.speculation.draft_missed_rounds > 0
            await asyncio.sleep(0.05)
        (paired,) = cluster.coordinator.pools.drafts.all
    assert paired.known_as == cluster.draft.runtime.description.replica_id
    assert output.summary.speculation.draft_tokens > 0


@pytest.mark.parametrize(
    "target", [WorkerPlan(table(), max_handles=1), WorkerPlan(table(blocks=3))]
)
async def test_room_for_one_serves_one_request_after_another(target: WorkerPlan) -> None:
    async with running_cluster(target, WorkerPlan(table())) as cluster:
        for _ in range(20):
            output = await cluster.generate(token_request(PROMPT, max_new_tokens=30))
            assert len(output.token_ids) == 30


async def test_a_bfloat16_draft_is_recomputed_token_for_token() -> None:
    law = random_table(seed=2)
    coarse = ScriptedModel(
        lambda ids: law[ids[-2], ids[-1]].bfloat16(), vocabulary_size=8, context_length=4096
    )
    async with running_cluster(WorkerPlan(table()), WorkerPlan(coarse)) as cluster:
        output = await cluster.generate(token_request(PROMPT, max_new_tokens=300))
    assert output.summary.speculation.draft_invalid_rounds == 0
    assert output.summary.speculation.accepted_tokens > 0


async def test_a_worker_whose_model_thread_died_is_not_serving() -> None:
    def fatal(token_ids: object) -> list[float]:
        raise SystemExit("as a broken device would")

    async with running_cluster(
        WorkerPlan(ScriptedModel(fatal, vocabulary_size=8)), None
    ) as cluster:
        with pytest.raises(aio.AioRpcError):
            await cluster.generate(token_request(PROMPT, max_new_tokens=8))
        async with asyncio.timeout(60):
            (replica,) = cluster.coordinator.pools.targets.all
            while not replica.worker.last.reason:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        reason = replica.worker.last.reason
    assert "not serving" in reason
