"""A link to the draft that is long, breaks or swallows all: it costs speed, never output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from coordinator.draft_session import DraftSession
from coordinator.main import CoordinatorServer
from outrider.delay_proxy import DelayProxy
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import LOOPBACK, Cluster, WorkerPlan, start_draft, start_target
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import LENGTH, alone, assert_undisturbed, request, table

TARGET_STEP_S = 0.01


@asynccontextmanager
async def linked_cluster(
    round_trip_s: float = 0.0, *, patience_ms: int = 100
) -> AsyncIterator[tuple[Cluster, DelayProxy]]:
    """A draft like the target, behind a proxy."""
    target = await start_target(WorkerPlan(table(step_time_s=TARGET_STEP_S)))
    draft = await start_draft(WorkerPlan(table(step_time_s=0.001)))
    async with DelayProxy(draft.rpc.address, round_trip_s=round_trip_s) as proxy:
        coordinator = CoordinatorServer(
            CoordinatorSettings(
                listen=LOOPBACK,
                target_address=target.rpc.address,
                draft_address=proxy.address,
                draft_timeout_ms=patience_ms,
                speculation="on",
            )
        )
        await coordinator.start()
        async with Cluster(coordinator, target, draft) as cluster:
            await coordinator.become_ready()
            await coordinator.pools.look()
            yield cluster, proxy


async def generate_while(cluster: Cluster, proxy: DelayProxy, trouble: str) -> list[int]:
    """Output ids; when ten are there the link gets into trouble."""
    received: list[int] = []
    async for response in cluster.stub.Generate(request()):
        if response.HasField("summary"):
            break
        received.extend(response.chunk.token_ids)
        if len(received) >= 10 and trouble:
            if trouble == "cut":
                proxy.cut()
            else:
                proxy.blackhole(True)
            trouble = ""
    return received


@pytest.fixture
def in_vain(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits for a draft that nothing came of, each by how long it might have been."""
    waits: list[float] = []
    arrival = DraftSession.arrival

    async def noted(self: DraftSession, timeout_s: float) -> bool:
        if not (in_time := await arrival(self, timeout_s)):
            waits.append(timeout_s)
        return in_time

    monkeypatch.setattr(DraftSession, "arrival", noted)
    return waits


async def test_a_long_way_is_hidden_behind_verification() -> None:
    async with linked_cluster(0.02) as (cluster, _):
        ahead = await cluster.generate(request())
        asked = request()
        asked.speculation.draft_ahead = False
        synchronous = await cluster.generate(asked)
    expected = await alone()
    assert_undisturbed(ahead, expected)
    assert_undisturbed(synchronous, expected)
    hidden, paid = ahead.summary.speculation, synchronous.summary.speculation
    assert paid.draft_wait_ms > 20.0 * (paid.drafted_rounds - 1)
    assert hidden.ready_rounds > 0
    assert paid.ready_rounds == 0


@pytest.mark.parametrize("trouble", ["cut", "blackhole"])
async def test_a_link_that_fails_costs_one_wait(trouble: str, in_vain: list[float]) -> None:
    async with linked_cluster() as (cluster, proxy):
        received = await generate_while(cluster, proxy, trouble)
        proxy.blackhole(False)
    assert received == await alone()
    assert len(in_vain) <= 2


async def test_a_draft_is_used_again_when_its_link_is_back() -> None:
    async with linked_cluster() as (cluster, proxy):
        await generate_while(cluster, proxy, "cut")
        async with asyncio.timeout(60):
            (draft,) = cluster.coordinator.pools.drafts.all
            while not draft.usable:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        output = await cluster.generate(request())
    assert output.summary.speculation.accepted_tokens > LENGTH // 3


def slow(proxy: DelayProxy) -> None:
    proxy.round_trip_s = 0.5


def swallowing(proxy: DelayProxy) -> None:
    proxy.cut()
    proxy.blackhole(True)


@pytest.mark.parametrize("trouble", [slow, swallowing])
async def test_a_link_that_fails_is_kept_away_from_until_it_is_well(
    trouble: Callable[[DelayProxy], None], in_vain: list[float]
) -> None:
    """A half-open connection, or half a second of latency (FAULTS I2)."""
    expected = await alone()
    async with linked_cluster(patience_ms=30) as (cluster, proxy):
        (draft,) = cluster.coordinator.pools.drafts.all
        assert (await cluster.generate(request())).summary.speculation.accepted_tokens > 0
        assert draft.breaker.closed
        trouble(proxy)
        in_vain.clear()
        outputs = [await cluster.generate(request()) for _ in range(4)]
        if trouble is swallowing:
            assert len(in_vain) <= len(outputs)
            assert not draft.breaker.closed
            assert not draft.usable
        proxy.round_trip_s = 0.0
        proxy.blackhole(False)
        async with asyncio.timeout(60):
            while True:
                again = await cluster.generate(request())
                if draft.breaker.closed and again.summary.speculation.accepted_tokens > 20:
                    break
    for output in (*outputs, again):
        assert_undisturbed(output, expected)
    assert outputs[-1].summary.speculation.accepted_tokens == 0


@pytest.mark.parametrize("round_trip_s", [0.0, 0.02])
async def test_a_seeded_output_knows_nothing_of_the_way(round_trip_s: float) -> None:
    asked = request(
        sampling=common_pb2.SamplingParams(seed=11),
        speculation=generation_pb2.SpeculationParams(draft_length=4, branches=4),
    )
    async with linked_cluster(round_trip_s) as (cluster, _):
        output = await cluster.generate(asked)
        asked.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
        expected = await cluster.generate(asked)
    assert_undisturbed(output, expected.token_ids)
