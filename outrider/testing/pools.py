"""Pools of several replicas in one process: real gRPC on loopback, each behind a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from coordinator.main import CoordinatorServer
from coordinator.replica import Replica
from draft_service.proposal import CandidateCut
from outrider.delay_proxy import DelayProxy
from outrider.drafter import Drafter
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import LOOPBACK, Cluster, WorkerPlan, start_draft, start_target
from outrider.worker.server import WorkerServer

Start = Callable[[WorkerPlan], Awaitable[WorkerServer[Any, Any]]]


@dataclass(slots=True)
class Member:
    """One replica, and the proxy that the coordinator reaches it through."""

    server: WorkerServer[Any, Any]
    link: DelayProxy
    start: Start

    async def kill(self) -> None:
        """Breaks its connections and ends it: nobody answers there any more."""
        self.link.cut()
        await self.server.stop(0)

    async def come_back(self, plan: WorkerPlan) -> None:
        """Another process takes its place."""
        self.server = await self.start(replace(plan, address=self.server.rpc.address))


class PooledCluster(Cluster):
    """A coordinator with several targets and drafts, and a client of it."""

    def __init__(
        self, coordinator: CoordinatorServer, targets: list[Member], drafts: list[Member]
    ) -> None:
        draft = drafts[0].server if drafts else None
        super().__init__(coordinator, targets[0].server, draft)
        self.targets = targets
        self.drafts = drafts

    def replica(self, member: Member) -> Replica:
        """That member as the coordinator sees it."""
        pools = self.coordinator.pools
        everyone = (*pools.targets.all, *pools.drafts.all)
        return next(one for one in everyone if one.address == member.link.address)

    def serving(self, members: Sequence[Member]) -> Member:
        """The one of them that has a generation now."""
        return next(one for one in members if self.replica(one).generations)

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.coordinator.stop(0.1)


@asynccontextmanager
async def running_pools(
    targets: Sequence[WorkerPlan],
    drafts: Sequence[WorkerPlan] = (),
    *,
    cut: CandidateCut | None = None,
    drafter: Drafter = Drafter.MODEL,
    **settings: Any,
) -> AsyncIterator[PooledCluster]:
    """All services, ready and paired. `settings` are those of the coordinator."""
    async with AsyncExitStack() as stack:

        async def member(plan: WorkerPlan, start: Start) -> Member:
            server = await start(plan)
            link = DelayProxy(server.rpc.address)
            one = Member(server, link, start)
            stack.push_async_callback(lambda: one.server.stop(0))
            await stack.enter_async_context(link)
            return one

        target_members = [await member(plan, start_target) for plan in targets]
        begin = partial(start_draft, cut=cut, drafter=drafter)
        draft_members = [await member(plan, begin) for plan in drafts]
        coordinator = CoordinatorServer(
            CoordinatorSettings(
                listen=LOOPBACK,
                target_address=",".join(one.link.address for one in target_members),
                draft_address=",".join(one.link.address for one in draft_members),
                **{"draft_timeout_ms": 10_000, "speculation": "on", **settings},
            )
        )
        await coordinator.start()
        cluster = PooledCluster(coordinator, target_members, draft_members)
        await stack.enter_async_context(cluster)
        await coordinator.become_ready()
        await coordinator.pools.look()
        yield cluster
