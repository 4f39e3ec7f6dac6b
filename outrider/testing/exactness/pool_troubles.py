"""What befalls the replicas of pools at random moments: outputs go on elsewhere, by one law."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from outrider.engine.model import Model
from outrider.testing.cluster import Cluster, WorkerPlan
from outrider.testing.pools import Member, PooledCluster

WEIGHTS = "one"
"""The digest of all targets of a pool."""
TROUBLES = ("cut", "silence", "kill", "drain")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTroubles:
    """One replica after the other is killed, drained or cut off, and comes back as a new process.

    `targets`: models that stand for the same weights; `drafts`: any. `every_s`: how long a replica
    is left in peace before the next has its turn, drawn evenly from between two bounds.
    """

    targets: Sequence[Callable[[], Model]]
    drafts: Sequence[Callable[[], Model]]
    every_s: tuple[float, float] = (0.1, 0.5)
    drain_s: float = 0.5
    silence_s: float = 0.3
    seed: int = 0

    async def __call__(self, cluster: Cluster) -> None:
        """One after the other until cancelled."""
        if not isinstance(cluster, PooledCluster):
            raise TypeError("these troubles need pools of several replicas")
        random = Random(self.seed)
        while True:
            for members, models in ((cluster.targets, self.targets), (cluster.drafts, self.drafts)):
                await asyncio.sleep(random.uniform(*self.every_s))
                plan = WorkerPlan(random.choice(models)(), weights_digest=WEIGHTS)
                await self._befall(random.choice(members), random.choice(TROUBLES), plan)

    async def _befall(self, member: Member, trouble: str, plan: WorkerPlan) -> None:
        if trouble == "cut":
            member.link.cut()
        elif trouble == "silence":
            member.link.blackhole(True)
            await asyncio.sleep(self.silence_s)
            member.link.blackhole(False)
        elif trouble == "kill":
            await member.kill()
            await member.come_back(plan)
        else:
            await member.server.stop(self.drain_s)
            await member.come_back(plan)
