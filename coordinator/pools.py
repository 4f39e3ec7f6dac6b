"""The targets and drafts that a coordinator works with, watched and kept paired."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from coordinator.matching import Matching
from coordinator.placement import Placement, placement_key
from coordinator.plan import GenerationPlan
from coordinator.policy import PoolPolicy
from coordinator.replica import Replica
from coordinator.replica_set import ReplicaSet
from coordinator.target_model import TargetModel, law_of, pick_model
from outrider.errors import PoolUnavailable

RETRY_AFTER_S = 1.0
MOST_REASONS = 3


class Pools:
    """Knows which replicas there are, their models and tokenizers, and which fit each other.

    Targets with the same weights are one pool: a generation goes on with any of them, and with no
    other. Answers of a process that has not been looked at are never used: the sessions compare
    replica ids.
    """

    def __init__(
        self, *, targets: ReplicaSet, drafts: ReplicaSet, tokenizer_digest: str = ""
    ) -> None:
        """`tokenizer_digest`: what the targets' tokenizer must have; empty: any."""
        self._matching = Matching(pinned_digest=tokenizer_digest)
        self._endings: set[asyncio.Task[None]] = set()
        self._probe: asyncio.Task[None] | None = None
        self.targets, self.drafts = targets, drafts
        targets.looked, drafts.looked = self._take_target, self._take_draft
        self.became_ready = asyncio.Event()
        self.policy = PoolPolicy()

    def start(self) -> None:
        """Begins to watch."""
        self.targets.start()
        self.drafts.start()

    async def close(self) -> None:
        """Stops watching and closes the channels."""
        await asyncio.gather(*self._endings, return_exceptions=True)
        if self._probe is not None:
            self._probe.cancel()
        await self.targets.close()
        await self.drafts.close()

    def end_later(self, ending: Coroutine[Any, Any, None]) -> None:
        """Lets a session end its stream in order, without its generation waiting for that."""
        task = asyncio.create_task(ending)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def probe(self) -> None:
        """Looks at all workers, without waiting for what a new one has to be asked. Once for all
        who ask meanwhile."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_all())
        await asyncio.shield(self._probe)

    async def look(self) -> None:
        """Looks at all workers once, and at their fit when one of them is new."""
        await self.targets.look()
        await self.drafts.look()

    def target_model(self, *, name: str = "", weights_digest: str = "") -> TargetModel:
        """What a new generation is planned for.

        `name`: of the model wanted, empty for any; where no target has it, another's is given, for
        the caller to refuse by. `weights_digest`: no other weights will do. Raises PoolUnavailable.
        """
        usable = [replica for replica in self.targets.well if replica.usable]
        if not usable:
            raise PoolUnavailable(self._why_no_target(), retry_after_s=RETRY_AFTER_S)
        if weights_digest:
            usable = [one for one in usable if one.model.weights_digest == weights_digest]
            if not usable:
                raise PoolUnavailable(
                    "weights_digest: no target serves these weights now",
                    retry_after_s=RETRY_AFTER_S,
                    field="weights_digest",
                )
        return pick_model(usable, name)

    def place_target(self, target: TargetModel, plan: GenerationPlan) -> Placement:
        """Where that generation's rounds may be verified."""

        def fits(replica: Replica) -> bool:
            model = replica.model
            return (
                replica.usable
                and law_of(model) == target.law
                and model.context_length >= plan.length_limit
                and model.max_draft_length >= target.model.max_draft_length
            )

        return Placement(_key(plan), lambda: self.targets.well, fits=fits)

    def place_draft(self, target: TargetModel, plan: GenerationPlan) -> Placement:
        """Where its tokens may be drafted."""

        def fits(replica: Replica) -> bool:
            compared = replica.known_as == replica.model.replica_id
            return replica.well and compared and replica.misfits.get(target.law) == ""

        return Placement(_key(plan), lambda: self.drafts.well, fits=fits)

    def _why_no_target(self) -> str:
        reasons = [
            f"no target at {replica.address}: "
            f"{replica.worker.last.reason or replica.refusal or 'its tokenizer is not here yet'}"
            for replica in self.targets.all[:MOST_REASONS]
        ]
        if fault := self.targets.fault:
            reasons.append(f"no target at {fault}")
        return "; ".join(reasons) or "no target was found yet"

    async def _probe_all(self) -> None:
        await asyncio.gather(self.targets.probe(), self.drafts.probe())

    async def _take_target(self, replica: Replica) -> None:
        if not await self._matching.take_target(replica):
            return
        self.became_ready.set()
        self.drafts.look_soon()

    async def _take_draft(self, replica: Replica) -> None:
        await self._matching.take_draft(replica, self.targets)


def _key(plan: GenerationPlan) -> bytes:
    return placement_key(plan.cache_scope, plan.prompt_token_ids)
