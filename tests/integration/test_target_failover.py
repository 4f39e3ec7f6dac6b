"""Targets that die, fall silent or end in the middle of generations: no token is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from grpc import StatusCode, aio

from outrider.rpc.status import attachment
from outrider.testing.cluster import Output, WorkerPlan
from outrider.testing.pools import Member, PooledCluster, running_pools
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import LENGTH, alone, assert_undisturbed, request, table

WEIGHTS = "the same"
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
DRAFTED = generation_pb2.SpeculationParams(draft_length=3)


def plan(seed: int = 1, digest: str = WEIGHTS) -> WorkerPlan:
    return WorkerPlan(table(seed, step_time_s=0.004), weights_digest=digest)


async def killed(member: Member) -> None:
    await member.kill()


async def cut(member: Member) -> None:
    member.link.cut()


async def silent(member: Member) -> None:
    member.link.blackhole(True)


async def draining(member: Member) -> None:
    asyncio.get_running_loop().create_task(member.server.rpc.drain(10.0))


async def generate_through(
    cluster: PooledCluster,
    trouble: Callable[[Member], Awaitable[None]],
    asked: generation_pb2.GenerateRequest,
    *,
    after: int = 10,
) -> Output:
    """One generation; once it has so many tokens its target gets into trouble."""
    output = Output()
    received = 0
    async for response in cluster.stub.Generate(asked):
        if response.HasField("summary"):
            output.summary = response.summary
            break
        output.chunks.append(response.chunk)
        if received < after <= received + len(response.chunk.token_ids):
            await trouble(cluster.serving(cluster.targets))
        received += len(response.chunk.token_ids)
    return output


@pytest.mark.parametrize("trouble", [killed, cut, silent, draining])
@pytest.mark.parametrize("speculation", [OFF, DRAFTED], ids=["alone", "drafted"])
async def test_the_client_notices_nothing(
    trouble: Callable[[Member], Awaitable[None]], speculation: generation_pb2.SpeculationParams
) -> None:
    expected = await alone()
    async with running_pools([plan(), plan()], [plan()]) as cluster:
        output = await generate_through(cluster, trouble, request(speculation=speculation))
    assert_undisturbed(output, expected)
    assert output.summary.speculation.target_moves >= 1


async def test_a_seeded_output_goes_on_as_it_would_have() -> None:
    seeded = common_pb2.SamplingParams(seed=7, temperature=1.0)
    async with running_pools([plan(), plan()], [plan(2)]) as cluster:
        expected = await cluster.generate(request(sampling=seeded, speculation=OFF))
        output = await generate_through(cluster, killed, request(sampling=seeded))
    assert_undisturbed(output, expected.token_ids)


async def test_all_generations_of_a_dead_target_go_on_elsewhere() -> None:
    expected = await alone()
    async with running_pools([plan(), plan()], [plan()], max_generations=64) as cluster:
        running = [asyncio.create_task(cluster.generate(request())) for _ in range(48)]
        async with asyncio.timeout(60):
            while min(cluster.replica(one).generations for one in cluster.targets) < 12:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await cluster.targets[0].kill()
        outputs = await asyncio.gather(*running)
        moves = [output.summary.speculation.target_moves for output in outputs]
    for output in outputs:
        assert_undisturbed(output, expected)
    assert sum(moves) >= 12


async def test_a_generation_waits_for_the_only_target_to_come_back() -> None:
    expected = await alone()
    async with running_pools([plan()], target_wait_s=20.0) as cluster:

        async def restarted(member: Member) -> None:
            await member.kill()
            await member.come_back(plan())

        output = await generate_through(cluster, restarted, request())
    assert_undisturbed(output, expected)


async def failure(cluster: PooledCluster, asked: generation_pb2.GenerateRequest) -> aio.AioRpcError:
    with pytest.raises(aio.AioRpcError) as caught:
        await generate_through(cluster, killed, asked)
    return caught.value


async def test_without_another_target_the_error_tells_what_was_decided() -> None:
    expected = await alone()
    async with running_pools([plan()], target_wait_s=0.2) as cluster:
        error = await failure(cluster, request(speculation=OFF))
    assert error.code() is StatusCode.UNAVAILABLE
    told = attachment(error, generation_pb2.InterruptedGeneration)
    assert told is not None
    assert 10 <= len(told.output_token_ids) < LENGTH
    assert list(told.output_token_ids) == expected[: len(told.output_token_ids)]
    assert told.origin.weights_digest == WEIGHTS

    async with running_pools([plan()]) as cluster:
        output = await cluster.generate(
            request(
                speculation=OFF,
                output_token_ids=told.output_token_ids,
                weights_digest=told.origin.weights_digest,
            )
        )
    assert [*told.output_token_ids, *output.token_ids] == expected


async def test_of_a_long_output_an_error_tells_the_last_ids() -> None:
    async with running_pools([plan()], target_wait_s=0.1) as cluster:
        asked = request(output_token_ids=[3] * 3000, speculation=OFF)
        asked.max_new_tokens = 3060
        error = await failure(cluster, asked)
    told = attachment(error, generation_pb2.InterruptedGeneration)
    assert told is not None
    assert len(told.output_token_ids) == 1000
    assert told.offset + 1000 >= 3010


async def test_a_generation_waits_no_longer_than_its_caller() -> None:
    async with running_pools([plan()], target_wait_s=200.0) as cluster:
        call = cluster.stub.Generate(request(speculation=OFF), timeout=2.0)
        with pytest.raises(aio.AioRpcError) as caught:
            async with asyncio.timeout(60):
                async for response in call:
                    if response.chunk.offset == 10:
                        await cluster.targets[0].kill()
        async with asyncio.timeout(60):
            while cluster.coordinator.pools.targets.all[0].generations:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert caught.value.code() in (StatusCode.DEADLINE_EXCEEDED, StatusCode.UNAVAILABLE)


async def test_other_weights_never_take_part() -> None:
    other = plan(5, "other")
    async with running_pools([plan(), other], target_wait_s=0.3) as cluster:
        laws = {}
        for _ in range(40):
            output = await cluster.generate(request(speculation=OFF))
            laws[output.chunks[0].origin.weights_digest] = output.token_ids
            if len(laws) == 2:
                break
        assert set(laws) == {WEIGHTS, "other"}
        asked = request(speculation=OFF, weights_digest=WEIGHTS)
        assert (await cluster.generate(asked)).token_ids == laws[WEIGHTS] == await alone()
        error = await failure(cluster, asked)
        assert error.code() is StatusCode.UNAVAILABLE
        with pytest.raises(aio.AioRpcError) as refusal:
            await cluster.generate(request(weights_digest="gone"))
    assert refusal.value.code() is StatusCode.UNAVAILABLE
    assert "weights_digest" in (refusal.value.details() or "")


async def test_a_full_target_is_passed_over_for_one_with_room() -> None:
    expected = await alone()
    small = WorkerPlan(table(step_time_s=0.004), weights_digest=WEIGHTS, max_handles=1)
    async with running_pools([small, plan()]) as cluster:
        outputs = await asyncio.gather(*(cluster.generate(request()) for _ in range(12)))
    for output in outputs:
        assert_undisturbed(output, expected)


async def test_a_full_pool_says_so_at_once() -> None:
    small = WorkerPlan(table(step_time_s=0.01), weights_digest=WEIGHTS, max_handles=1)
    async with running_pools([small]) as cluster:
        calls = [asyncio.create_task(cluster.generate(request())) for _ in range(6)]
        done = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in done if isinstance(one, aio.AioRpcError)]
    assert refused
    assert {one.code() for one in refused} == {StatusCode.RESOURCE_EXHAUSTED}
    assert any(isinstance(one, Output) for one in done)


async def test_a_target_that_is_lost_while_its_streams_wait_to_be_opened() -> None:
    expected = await alone()
    async with running_pools([plan(), plan()]) as cluster:
        replicas = [cluster.replica(one) for one in cluster.targets]
        taken = 0
        for replica in replicas:
            while replica.openings.take_now():
                taken += 1
        running = [asyncio.create_task(cluster.generate(request(speculation=OFF))) for _ in "four"]
        async with asyncio.timeout(60):
            while sum(replica.generations for replica in replicas) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await cluster.targets[0].kill()
        async with asyncio.timeout(60):
            while replicas[0].well:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        for replica in replicas:
            for _ in range(taken // 2):
                replica.openings.give_back()
        outputs = await asyncio.gather(*running)
        await asyncio.sleep(0.1)
        for replica in replicas:
            assert replica.openings.take_now()
            assert len([0 for _ in range(taken) if replica.openings.take_now()]) == taken // 2 - 1
    for output in outputs:
        assert_undisturbed(output, expected)
