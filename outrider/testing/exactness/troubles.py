"""What befalls services at random moments: none of it may change the law of an output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from draft_service.proposal import CandidateCut
from outrider.drafter import Drafter
from outrider.engine.model import Model
from outrider.testing.cluster import Cluster, WorkerPlan, start_draft


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTroubles:
    """The draft is killed and comes back, its connections break, its distance changes.

    `drafts`: models that take each other's place. `every_s`, `round_trip_s`: drawn evenly from
    between two bounds.
    """

    drafts: tuple[Callable[[], Model], ...]
    cut: CandidateCut | None = None
    drafter: Drafter = Drafter.MODEL
    every_s: tuple[float, float] = (2.0, 6.0)
    round_trip_s: tuple[float, float] = (0.002, 0.02)
    seed: int = 0

    async def __call__(self, cluster: Cluster) -> None:
        """One after the other until cancelled."""
        random = Random(self.seed)
        if cluster.draft_hop is None:
            raise ValueError("these troubles need a draft with a round trip")
        while True:
            await asyncio.sleep(random.uniform(*self.every_s))
            trouble = random.choice(("delay", "cut", "kill"))
            if trouble == "delay":
                cluster.draft_hop.round_trip_s = random.uniform(*self.round_trip_s)
            elif trouble == "cut":
                cluster.draft_hop.cut()
            else:
                await self._kill(cluster, random.choice(self.drafts)())

    async def _kill(self, cluster: Cluster, model: Model) -> None:
        """Another process at the same address, with nothing of what the one before knew."""
        if cluster.draft is None:
            raise ValueError("there is no draft")
        address = cluster.draft.rpc.address
        await cluster.draft.stop(0)
        plan = WorkerPlan(model, address=address)
        cluster.draft = await start_draft(plan, cut=self.cut, drafter=self.drafter)
        await cluster.coordinator.pools.look()
