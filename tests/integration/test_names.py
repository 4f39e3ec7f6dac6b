"""Pools behind a name: each of its addresses is a replica, and new ones get traffic."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from coordinator import endpoints, replica_set
from coordinator.endpoints import Endpoint, Endpoints
from coordinator.main import CoordinatorServer
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import LOOPBACK, Cluster, WorkerPlan, start_target, token_request
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import table

NAME = "targets.test"


class Names:
    """A name server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self.fault = ""
        monkeypatch.setattr(endpoints, "resolve_name", self.resolve)

    async def resolve(self, host: str, port: int) -> list[str]:
        assert host == NAME
        if self.fault:
            raise socket.gaierror(-2, self.fault)
        return self.addresses


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    monkeypatch.setattr(replica_set, "RESOLVE_INTERVAL_S", 0.1)
    return Names(monkeypatch)


def free_port() -> int:
    """One that is free at every loopback address, as far as can be told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@asynccontextmanager
async def named_pool(names: Names, count: int) -> AsyncIterator[tuple[Cluster, int]]:
    """`count` targets at 127.0.0.1 and on, behind one name; the port they have in common."""
    port = free_port()
    ips = [f"127.0.0.{n + 1}" for n in range(count)]
    plans = [
        WorkerPlan(table(step_time_s=0.001), weights_digest="same", address=f"{ip}:{port}")
        for ip in ips
    ]
    servers = [await start_target(plan) for plan in plans]
    names.addresses = ips
    settings = CoordinatorSettings(
        listen=LOOPBACK, target_address=f"{NAME}:{port}", draft_address="", insecure=True
    )
    coordinator = CoordinatorServer(settings)
    await coordinator.start()
    async with Cluster(coordinator, servers[0], None) as cluster:
        await coordinator.become_ready()
        await coordinator.pools.look()
        try:
            yield cluster, port
        finally:
            for server in servers[1:]:
                await server.stop(0)


async def rounds(cluster: Cluster) -> dict[str, int]:
    """Generations that each target had."""
    return {
        replica.address.rpartition(":")[0]: replica.placed
        for replica in cluster.coordinator.pools.targets.all
    }


def prompt(random: Random) -> generation_pb2.GenerateRequest:
    ids = [random.randrange(8) for _ in range(12)]
    return token_request(ids, max_new_tokens=3, sampling=common_pb2.SamplingParams(temperature=0))


async def test_requests_are_shared_by_all_addresses(names: Names) -> None:
    random = Random(5)
    async with named_pool(names, 3) as (cluster, _):
        for _ in range(30):
            await asyncio.gather(*(cluster.generate(prompt(random)) for _ in range(10)))
        shares = await rounds(cluster)
        moves = [one.failures for one in cluster.coordinator.pools.targets.all]
    assert len(shares) == 3
    assert all(60 <= share <= 141 for share in shares.values())
    assert moves == [0, 0, 0]


async def test_a_new_address_gets_traffic_within_seconds(names: Names) -> None:
    random = Random(6)
    async with named_pool(names, 3) as (cluster, _):
        newcomer = names.addresses.pop()
        for _ in range(replica_set.LOOK_UPS_WITHOUT):
            await cluster.coordinator.pools.look()
        assert newcomer not in await rounds(cluster)
        names.addresses = [*names.addresses, newcomer]
        async with asyncio.timeout(60):
            while (await rounds(cluster)).get(newcomer, 0) < 5:
                await cluster.generate(prompt(random))


async def test_an_address_that_is_gone_is_left_and_forgotten(names: Names) -> None:
    async with named_pool(names, 2) as (cluster, _):
        asked = token_request(
            [1, 2, 3], max_new_tokens=1500, sampling=common_pb2.SamplingParams(temperature=0)
        )
        expected = (await cluster.generate(asked)).token_ids
        received: list[int] = []
        async for response in cluster.stub.Generate(asked):
            received.extend(response.chunk.token_ids)
            if response.HasField("summary"):
                moves = response.summary.speculation.target_moves
            elif len(names.addresses) == 2 and len(received) > 20:
                using = next(
                    one for one in cluster.coordinator.pools.targets.all if one.generations
                )
                names.addresses = [
                    ip for ip in names.addresses if ip != using.address.rpartition(":")[0]
                ]
        await cluster.coordinator.pools.look()
        left = await rounds(cluster)
    assert received == expected
    assert moves == 1
    assert list(left) == names.addresses


async def test_a_name_server_that_fails_changes_nothing(names: Names) -> None:
    async with named_pool(names, 2) as (cluster, _):
        names.fault = "try again"
        await cluster.coordinator.pools.look()
        assert len(await rounds(cluster)) == 2
        await cluster.generate(prompt(Random(1)))


async def test_status_says_that_a_name_is_not_known(names: Names) -> None:
    names.fault = "no such name"
    found = Endpoints([f"{NAME}:7421", "10.1.2.3:7421", "localhost:7421"])
    assert await found.look_up() == [Endpoint("10.1.2.3:7421"), Endpoint("localhost:7421")]
    assert "no such name" in found.faults[f"{NAME}:7421"]
    names.fault, names.addresses = "", ["10.0.0.1", "fd00::1"]
    assert [one.address for one in await found.look_up()] == [
        "10.0.0.1:7421",
        "[fd00::1]:7421",
        "10.1.2.3:7421",
        "localhost:7421",
    ]
    assert found.faults == {}
