"""Several drafts: one that fails, is slow or about to end is left for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from outrider.testing.cluster import Output, WorkerPlan
from outrider.testing.pools import Member, PooledCluster, running_pools
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import alone, assert_undisturbed, request, table

STEP_S = 0.02


def target() -> WorkerPlan:
    return WorkerPlan(table(step_time_s=STEP_S), weights_digest="the same")


def draft(seed: int = 1, **times: float) -> WorkerPlan:
    return WorkerPlan(table(seed, **times))


async def killed(member: Member) -> None:
    await member.kill()


async def silent(member: Member) -> None:
    member.link.blackhole(True)


async def slow(member: Member) -> None:
    member.link.round_trip_s = 0.5


async def draining(member: Member) -> None:
    asyncio.get_running_loop().create_task(member.server.rpc.drain(10.0))


async def generate_through(
    cluster: PooledCluster, trouble: Callable[[Member], Awaitable[None]]
) -> Output:
    """One generation whose draft gets into trouble after ten tokens."""
    output, received = Output(), 0
    async for response in cluster.stub.Generate(request()):
        if response.HasField("summary"):
            output.summary = response.summary
            break
        output.chunks.append(response.chunk)
        if received < 10 <= received + len(response.chunk.token_ids):
            await trouble(cluster.serving(cluster.drafts))
        received += len(response.chunk.token_ids)
    return output


@pytest.mark.parametrize("trouble", [killed, silent, slow, draining])
async def test_another_draft_takes_over(
    trouble: Callable[[Member], Awaitable[None]],
) -> None:
    expected = await alone()
    async with running_pools([target()], [draft(), draft()], draft_timeout_ms=50) as cluster:
        output = await generate_through(cluster, trouble)
        again = await cluster.generate(request())
    assert_undisturbed(output, expected)
    assert_undisturbed(again, expected)
    assert again.summary.speculation.accepted_tokens > 20
    if trouble in (killed, draining):
        assert output.summary.speculation.draft_moves == 1
        assert output.summary.speculation.accepted_tokens > 20


async def test_a_draft_that_failed_is_left_alone_until_it_serves_again() -> None:
    async with running_pools([target()], [draft(), draft()]) as cluster:
        failed = cluster.drafts[0]
        await failed.kill()
        for _ in range(8):
            output = await cluster.generate(request())
            assert output.summary.speculation.accepted_tokens > 0
        assert cluster.replica(failed).generations == 0
        placed = cluster.replica(failed).placed
        await failed.come_back(draft())
        async with asyncio.timeout(60):
            while not cluster.replica(failed).usable:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        prompts = [generation_pb2.TokenPrompt(token_ids=[1, 2, 3, seed]) for seed in range(8)]
        for prompt in prompts:
            asked = request()
            asked.tokens.CopyFrom(prompt)
            await cluster.generate(asked)
        assert cluster.replica(failed).placed > placed


@pytest.mark.parametrize("seed", [3, 4])
async def test_a_draft_that_is_believed_no_longer_is_asked_for_greedy_tokens(seed: int) -> None:
    sampled = common_pb2.SamplingParams(
        temperature=1.0, seed=seed, verification=common_pb2.VERIFICATION_REJECTION
    )
    async with running_pools([target()], [draft(2)]) as cluster:
        for _ in range(4):
            await cluster.generate(request(sampling=sampled))
        replica = cluster.replica(cluster.drafts[0])
        assert replica.honesty.trusted
        assert replica.honesty.z != 0.0
        # As if each of its tokens were accepted however unlikely.
        for _ in range(100):
            replica.judged(0.2, accepted=True)
        assert not replica.honesty.trusted
        z = replica.honesty.z
        output = await cluster.generate(request(sampling=sampled))
        assert output.summary.speculation.draft_tokens > 0
        assert replica.honesty.z == z, "what it says of their laws was used"
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    assert output.gapless
    (told,) = status.drafts
    assert not told.trusted
    assert told.usable
    assert told.acceptance_z > 6.0
