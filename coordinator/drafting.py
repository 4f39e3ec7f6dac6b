"""What one generation does with its draft: how far it is sent, how long it is waited for.

Everything here is decided from lengths, counts and clocks, never from the value of a token that is
not committed, so that the output law stays the target's.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from coordinator.copied_tokens import copying, verified
from coordinator.draft_intake import DraftIntake
from coordinator.draft_plan import (
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.draft_session import DraftSession
from coordinator.draft_tree import DraftTree, Step
from coordinator.policy import GenerationPolicy
from coordinator.proposal import Proposal
from coordinator.statistics import MS_PER_S, SpeculationStatistics


class Drafting:
    """Goes by the policy: keeps the draft at work, takes from the tree what has come."""

    def __init__(
        self,
        *,
        terms: SpeculationTerms,
        policy: GenerationPolicy,
        session: DraftSession,
        intake: DraftIntake,
        tree: DraftTree,
        room: Callable[[], int],
    ) -> None:
        """`room`: how many draft tokens, after those committed by now, can still become output and
        have room at the draft; 0 or less when none can."""
        self._terms = terms
        self._policy = policy
        self._session = session
        self._intake = intake
        self._tree = tree
        self._room = room
        self.missing = False
        """Draft tokens would have been of use, but there is no draft to ask."""
        self.plan = DraftPlan(0)
        """How the next round is made."""
        self._stands = False
        """It was chosen while the target had still to give tokens, and waits for its turn."""

    def begin(self, *, offset: int) -> None:
        """Before the first round: lets the draft read the prompt, and go on if it may.

        The target gives the token after the prompt alone; the draft begins with one of its own for
        that place.
        """
        self._choose(offset=offset, room=self._room() - 1)
        plan = self.plan
        if plan.ahead:
            self._session.commit(replace(plan, draft_length=plan.draft_length + 1))
        elif plan.draft_length:
            self._session.commit(DraftPlan(0))
        elif plan.copies:
            self._session.commit(plan)

    def go_on(self, *, offset: int, in_run: bool) -> None:
        """After a verdict: chooses how the next round is made, and tells the draft at once.

        `in_run`: the target has still to give tokens that it was asked for. Once draft tokens are
        wanted that choice stands until it has given them. The draft follows meanwhile, unless the
        two are to take turns.
        """
        if self._stands:
            self.plan = limited(self.plan, self._room())
        else:
            self._choose(offset=offset, room=self._room())
            self._stands = in_run and self.plan.draft_length > 0
        plan = self.plan
        looks_up = plan.copies and not plan.draft_length
        if plan.ahead or looks_up or (plan.draft_length and not in_run):
            self._session.commit(plan)

    @property
    def waited_for(self) -> bool:
        """The next round cannot have all its draft tokens before the draft has sent more."""
        return self._tree.depth < self._wanted

    async def proposal(self) -> Proposal:
        """The draft tokens of the next round; waits for them as long as the policy says."""
        self._stands = False
        plan, tree = self.plan, self._tree
        if not (plan.draft_length or plan.copies):
            return Proposal(missed=self.missing)
        reported = self._intake.time
        wait_s = await self._wait(self._wanted + self._cover)
        length = verified(tree, plan, self._policy, longest=self._terms.max_draft_length)
        copied = tree.copied(length + 1)
        # A bonus in the place of a copied token is that token as often as that would be accepted.
        covered = len(copied) > length > 0 and not copied[length]
        return Proposal(
            tree.chain(length),
            sources=tree.sources(length),
            copied=copied[:length],
            run=tree.run,
            copies_alone=not plan.draft_length,
            want_bonus=self._terms.bonus_free or not covered,
            wait_s=wait_s,
            draft=(self._intake.time - reported).within(wait_s),
            guess=length > 0 and tree.on_guess,
            missed=plan.draft_length > 0 and not length,
        )

    def decided(self, facts: RoundFacts | None, *, unjudged: Sequence[Step]) -> None:
        """Has the policy told of a round, and of tokens that the target chose alone.

        It learns of them in the next idle moment: no round and no draft waits for that.
        """
        asyncio.get_running_loop().call_soon(self._tell, facts, unjudged)

    def _tell(self, facts: RoundFacts | None, unjudged: Sequence[Step]) -> None:
        if facts is not None:
            self._policy.round(facts)
        for step in unjudged:
            if step.drawn:
                matched = step.foreseen and not step.guess
                self._policy.foresaw(
                    ForesightFacts(matched=matched, copied=step.copied, run=step.run)
                )

    def count(self, statistics: SpeculationStatistics) -> None:
        """Brings up to date what is counted token by token or answer by answer."""
        undecided = self._intake.stale_tokens + self._tree.dropped
        rejected = statistics.draft_tokens - statistics.accepted_tokens
        statistics.dropped_tokens = max(0, undecided - rejected)
        statistics.replays += self._session.replays
        statistics.stale_proposals = self._intake.stale_proposals
        statistics.draft_moves = self._session.moves
        statistics.draft_failed = self._session.failed_numerically
        statistics.draft_bytes = self._session.bytes
        statistics.draft_ms = self._intake.time.model_s * MS_PER_S

    @property
    def _wanted(self) -> int:
        """Tokens that the next round waits for, if it pays."""
        plan = self.plan
        return plan.draft_length or (plan.together if plan.copies else 0)

    @property
    def _cover(self) -> int:
        """1 where a draft token behind those to verify is worth having: a bonus drawn in its place
        would, as likely as not, cut off all that was drafted ahead."""
        return 1 if self.plan.ahead and self.plan.draft_length and not self._terms.bonus_free else 0

    def _choose(self, *, offset: int, room: int) -> None:
        room = max(0, room)
        ready = self._session.ready
        self.missing = room > 0 and not ready
        situation = Situation(
            offset=offset,
            room=room,
            draft_ready=ready,
            ready=self._tree.depth,
            copying=copying(self._session.model, self._tree, longest=self._terms.max_draft_length),
        )
        self.plan = limited(self._policy.plan(situation), room)

    async def _wait(self, wanted: int) -> float:
        """Waits until `wanted` tokens are there or more do not pay; the seconds that took."""
        since = time.perf_counter()
        waited_s = 0.0
        while (tokens := self._tree.depth) < wanted:
            next_in_s = self._session.next_in_s
            if math.isinf(next_in_s):
                break
            patience_s = self._policy.patience_s(tokens=tokens, next_in_s=next_in_s)
            patience_s = min(patience_s, self._terms.patience_s - waited_s)
            if patience_s <= 0.0:
                break
            in_time = await self._session.arrival(patience_s)
            waited_s = time.perf_counter() - since
            if not in_time:
                if waited_s >= self._terms.patience_s:
                    self._session.missed()
                break
        return waited_s


def limited(plan: DraftPlan, room: int) -> DraftPlan:
    """The plan with no more draft tokens than there is room for."""
    length = max(0, min(plan.draft_length, room))
    ahead = max(0, min(plan.ahead, room - length))
    copies = max(0, min(plan.copies, room - length - ahead))
    return replace(
        plan,
        draft_length=length,
        ahead=ahead,
        together=min(plan.together, length or copies),
        copies=copies,
    )
