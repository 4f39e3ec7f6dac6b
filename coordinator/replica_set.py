"""The replicas of one service: found, watched, and left when they are gone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import structlog

from coordinator.calls import CLOSED_CALL_ERRORS, awaited_calls
from coordinator.endpoints import Endpoint, Endpoints
from coordinator.replica import Replica
from outrider.rpc.channel import Channels

LOOK_INTERVAL_S = 2.0
IMPATIENT_INTERVAL_S = 0.25
SHORTEST_INTERVAL_S = 0.1
"""Between looks at a replica, however many ask for one."""
RESOLVE_INTERVAL_S = 5.0
IMPATIENT_RESOLVE_S = 1.0
LOOK_UPS_WITHOUT = 3
"""In a row, after which an address is not the pool's any more: name servers may give a part of many
addresses, another part each time."""

log = structlog.get_logger(__name__)

Looked: TypeAlias = Callable[[Replica], Awaitable[None]]


class ReplicaSet:
    """Looks at each replica every few seconds, and at once when its health changes."""

    def __init__(self, endpoints: Endpoints, channels: Channels, *, health_name: str) -> None:
        """`health_name`: the service that says of itself whether it serves."""
        self._endpoints = endpoints
        self._channels = channels
        self._health_name = health_name
        self.looked: Looked = _nothing
        """Awaited after each look at a replica."""
        self._replicas: dict[str, Replica] = {}
        self._unseen: Counter[str] = Counter()
        """Look-ups in a row without that address."""
        self._watchers: dict[str, list[asyncio.Task[None]]] = {}
        self._resolver: asyncio.Task[None] | None = None

    @property
    def all(self) -> Sequence[Replica]:
        """Every replica, in the order of their addresses' first appearance; two addresses of one
        process count once."""
        seen: dict[str, Replica] = {}
        for replica in self._replicas.values():
            name = replica.model.replica_id or replica.address
            if name not in seen or (replica.listed and not seen[name].listed):
                seen[name] = replica
        return list(seen.values())

    @property
    def well(self) -> Sequence[Replica]:
        """Those that serve."""
        return [replica for replica in self.all if replica.well]

    @property
    def configured(self) -> bool:
        """There are to be some, whether any is found or not."""
        return self._endpoints.configured

    @property
    def fault(self) -> str:
        """Why there are none, when names cannot be looked up."""
        return "; ".join(f"{name}: {why}" for name, why in self._endpoints.faults.items())

    def start(self) -> None:
        """Begins to look names up and to watch."""
        self._resolver = asyncio.create_task(self._resolve_often())

    async def close(self) -> None:
        """Watches no more and closes the channels."""
        tasks = [task for tasks in self._watchers.values() for task in tasks]
        tasks += [self._resolver] if self._resolver else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica in self._replicas.values():
            await replica.close()

    def look_soon(self) -> None:
        """Has all of them looked at at once."""
        for replica in self._replicas.values():
            replica.look_soon.set()

    async def look(self) -> None:
        """Looks names up and at every replica, now."""
        await self.resolve()
        await asyncio.gather(*(self._look(replica) for replica in list(self._replicas.values())))

    async def probe(self) -> None:
        """Looks at every replica without waiting for what a new one has to be asked."""
        await asyncio.gather(*(replica.worker.probe() for replica in self._replicas.values()))

    async def resolve(self) -> None:
        """Takes up new addresses; those that are listed no more get no new generations."""
        found = {endpoint.address: endpoint for endpoint in await self._endpoints.look_up()}
        for address, endpoint in found.items():
            if address not in self._replicas:
                self._take_up(endpoint)
        for address, replica in list(self._replicas.items()):
            self._unseen[address] = 0 if address in found else self._unseen[address] + 1
            replica.listed = self._unseen[address] < LOOK_UPS_WITHOUT
        idle = [
            address
            for address, replica in self._replicas.items()
            if not replica.listed and not replica.generations
        ]
        forgotten = [self._forget(address) for address in idle]
        await asyncio.gather(*(replica.close() for replica in forgotten))

    def _take_up(self, endpoint: Endpoint) -> None:
        address = endpoint.address
        replica = Replica(endpoint, self._channels, health_name=self._health_name)
        self._replicas[address] = replica
        if self._resolver is not None:
            self._watchers[address] = [
                asyncio.create_task(self._look_often(replica)),
                asyncio.create_task(self._watch_health(replica)),
                asyncio.create_task(self._weigh_often(replica)),
            ]

    def _forget(self, address: str) -> Replica:
        for task in self._watchers.pop(address, ()):
            task.cancel()
        del self._unseen[address]
        return self._replicas.pop(address)

    async def _resolve_often(self) -> None:
        while True:
            try:
                await self.resolve()
            except Exception:
                log.exception("looking names up failed")
            await asyncio.sleep(RESOLVE_INTERVAL_S if self.well else IMPATIENT_RESOLVE_S)

    async def _look_often(self, replica: Replica) -> None:
        while True:
            replica.look_soon.clear()
            try:
                with awaited_calls():
                    await self._look(replica)
            except CLOSED_CALL_ERRORS:
                pass
            except Exception:
                log.exception("looking at a worker failed", address=replica.address)
            await asyncio.sleep(SHORTEST_INTERVAL_S)
            settled = replica.well and replica.breaker.closed
            interval_s = LOOK_INTERVAL_S if settled else IMPATIENT_INTERVAL_S
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s * random.uniform(0.8, 1.2)):
                    await replica.look_soon.wait()

    async def _watch_health(self, replica: Replica) -> None:
        while True:
            await replica.worker.watch(replica.look_soon.set)
            await asyncio.sleep(IMPATIENT_INTERVAL_S)

    async def _weigh_often(self, replica: Replica) -> None:
        while True:
            await replica.worker.weigh()
            await asyncio.sleep(LOOK_INTERVAL_S * random.uniform(0.8, 1.2))

    async def _look(self, replica: Replica) -> None:
        replica.renew_channel()
        await replica.worker.look()
        await self.looked(replica)


async def _nothing(_: Replica) -> None:
    return
