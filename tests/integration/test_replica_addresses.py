"""Which addresses are replicas, while what is listed changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coordinator import replica_set
from coordinator.endpoints import Endpoint, Endpoints
from coordinator.main import TARGET_SERVICE
from coordinator.replica_set import ReplicaSet
from outrider.delay_proxy import DelayProxy
from outrider.rpc.channel import Channels
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.pools import running_pools
from outrider.v1 import generation_pb2
from tests.integration.undisturbed import alone, assert_undisturbed, request, table

OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)


def plan() -> WorkerPlan:
    return WorkerPlan(table(step_time_s=0.004), weights_digest="the same")


class Listed(Endpoints):
    """Endpoints that a test sets."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(addresses)
        self.now = list(addresses)

    async def look_up(self) -> list[Endpoint]:
        found = [Endpoint(address) for address in self.now]
        await asyncio.sleep(0)
        return found


async def test_of_two_addresses_of_one_process_the_listed_one_counts() -> None:
    server = await start_target(plan())
    async with DelayProxy(server.rpc.address) as first, DelayProxy(server.rpc.address) as second:
        listed = Listed([first.address, second.address])
        replicas = ReplicaSet(listed, Channels(), health_name=TARGET_SERVICE)
        await replicas.look()
        assert [one.address for one in replicas.well] == [first.address]
        # A generation keeps the first one from being forgotten.
        replicas.all[0].enter()
        listed.now = [second.address]
        for _ in range(replica_set.LOOK_UPS_WITHOUT):
            await replicas.look()
        assert [one.address for one in replicas.well] == [second.address]
        await replicas.close()
    await server.stop(0)


async def test_look_ups_at_once_forget_an_address_once() -> None:
    listed = Listed(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"])
    replicas = ReplicaSet(listed, Channels(), health_name=TARGET_SERVICE)
    await replicas.resolve()
    listed.now = []
    for _ in range(replica_set.LOOK_UPS_WITHOUT):
        await asyncio.gather(*(replicas.resolve() for _ in range(4)))
    assert not replicas.all
    await replicas.close()


async def test_an_answer_that_leaves_some_addresses_out_moves_nobody() -> None:
    """Name servers may give a part of many addresses, another part each time."""
    expected = await alone()
    async with running_pools([plan(), plan()]) as cluster:
        pool = cluster.coordinator.pools.targets
        listed = Listed([one.address for one in pool.all])
        pool._endpoints = listed
        everything = list(listed.now)

        async def flap() -> None:
            for n in range(1000):
                listed.now = [everything[n % 2]]
                await pool.resolve()
                await asyncio.sleep(0.005)

        flapping = asyncio.create_task(flap())
        outputs = await asyncio.gather(
            *(cluster.generate(request(speculation=OFF)) for _ in range(4))
        )
        flapping.cancel()
        assert len(pool.all) == 2
    for output in outputs:
        assert_undisturbed(output, expected)
        assert output.summary.speculation.target_moves == 0
