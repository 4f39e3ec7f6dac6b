"""The decode loop: draft, verify, commit, until the output ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from opentelemetry.trace import Span

from coordinator.draft_plan import LONGEST_RUN, DraftPlan, RoundFacts
from coordinator.draft_tree import DraftTree
from coordinator.drafting import Drafting
from coordinator.ending import Cut, cut_output
from coordinator.plan import GenerationPlan
from coordinator.proposal import Proposal
from coordinator.statistics import SpeculationStatistics
from coordinator.target_session import TargetSession
from coordinator.tracing import RoundTrace
from coordinator.worker_time import WorkerTime
from outrider.errors import InternalFailure
from outrider.prefix import TokenPrefix
from outrider.v1 import target_pb2

ALONE = DraftPlan(draft_length=0, run=LONGEST_RUN)
NOTHING = Proposal()


class DecodeLoop:
    """Decodes one generation round by round.

    A turn takes the draft tokens that are there, has them verified, moves the draft tree along the
    output and tells the draft at once. The first round has none: the target reads the prompt and
    gives a token, and the draft reads the prompt meanwhile.
    """

    def __init__(
        self,
        plan: GenerationPlan,
        *,
        prefix: TokenPrefix,
        tree: DraftTree,
        target: TargetSession,
        drafting: Drafting | None,
        span: Span,
    ) -> None:
        """`prefix`: prompt and resumed output, which `tree` moves on. `drafting` None: the target
        decodes alone. `span` is the generation's; rounds become its children."""
        self._plan = plan
        self._prefix = prefix
        self._tree = tree
        self._target = target
        self._drafting = drafting
        self._span = span
        self._decided = 0.0
        self._first_bytes = 0
        self.statistics = SpeculationStatistics()

    async def run(self) -> AsyncGenerator[Cut, None]:
        """Yields the output of each round as it is decided; the last one has a finish reason."""
        if self._drafting is not None:
            self._drafting.begin(offset=self._offset)
        while True:
            cut = await self._turn()
            if self._drafting is not None and self._drafting.waited_for:
                # The draft hears of the output before the client does: the next round needs it.
                await asyncio.sleep(0)
            yield cut
            if cut.finish_reason is not None:
                return

    @property
    def _offset(self) -> int:
        """Output tokens so far."""
        return len(self._prefix) - len(self._plan.prompt_token_ids)

    async def _turn(self) -> Cut:
        first, in_run = self.statistics.rounds == 0, self._target.running
        # In a run the target has been at it since the token before.
        started = self._decided if in_run else time.perf_counter()
        with RoundTrace(self._span, number=self.statistics.rounds) as trace:
            proposal = NOTHING if first else await self._propose()
            trace.proposed(proposal)
            asked = started if in_run else time.perf_counter()
            replays = self._target.replays
            verdict = await self._verify(proposal, trace)
            self._decided = time.perf_counter()
            cut = self._cut(verdict)
            spent = WorkerTime.reported(verdict.timings)
            facts = RoundFacts(
                drafted=len(proposal.tokens),
                accepted=verdict.accepted,
                output=len(cut.token_ids),
                verify_s=self._decided - asked,
                model_s=spent.model_s,
                queue_s=spent.queue_s,
                wait_s=proposal.wait_s,
                batch_size=verdict.timings.batch_size,
                price=verdict.price,
                in_run=in_run,
                ready=proposal.ready,
                guess=proposal.guess,
                replayed=self._target.replays > replays,
                copied=proposal.copied,
                run=proposal.run,
                copies_alone=proposal.copies_alone,
            )
            self._hold_against(proposal, verdict)
            self._move_on(cut, facts)
            judged = 0 if verdict.HasField("draft_invalid") else facts.drafted
            trace.decided(drafted=judged, accepted=facts.accepted, output=cut.token_ids)
        statistics = self.statistics
        statistics.count_round(drafted=judged, accepted=facts.accepted, output=facts.output)
        statistics.count_copies(proposal.copied[:judged], accepted=facts.accepted)
        statistics.count_proposal(proposal, invalid=judged < facts.drafted)
        if not first:
            statistics.count_time(
                round_s=self._decided - started,
                wait_s=proposal.wait_s,
                target=spent,
                draft=proposal.draft,
            )
        if first:
            self._first_bytes = self._target.bytes
        statistics.target_bytes = self._target.bytes - self._first_bytes
        statistics.replays = self._target.replays
        statistics.target_moves = self._target.moves
        if self._drafting is not None:
            self._drafting.count(statistics)
        return cut

    async def _propose(self) -> Proposal:
        if self._drafting is None:
            return NOTHING
        if self._target.running:
            return Proposal(missed=self._drafting.missing)
        return await self._drafting.proposal()

    async def _verify(self, proposal: Proposal, trace: RoundTrace) -> target_pb2.Verdict:
        plan = self._drafting.plan if self._drafting is not None else ALONE
        room = self._plan.length_limit - len(self._prefix) - 1
        with trace.verify() as call:
            verdict = await self._target.verify(
                self._prefix,
                proposal.tokens,
                want_bonus=proposal.want_bonus,
                trace=call.context,
                further=0 if plan.draft_length or proposal.tokens else min(plan.run, room),
            )
            call.answered(verdict.timings, tokens=len(proposal.tokens))
        return verdict

    def _hold_against(self, proposal: Proposal, verdict: target_pb2.Verdict) -> None:
        """Tells drafts whether their tokens were accepted, and how likely that was to be."""
        expected = verdict.expected_acceptance
        for place, (source, chance) in enumerate(zip(proposal.sources, expected, strict=False)):
            if source is not None:
                source.judged(chance, accepted=place < verdict.accepted)

    def _cut(self, verdict: target_pb2.Verdict) -> Cut:
        cut = cut_output(
            verdict.output_token_ids,
            room=self._plan.length_limit - len(self._prefix),
            stop_token_ids=self._plan.stop_token_ids,
        )
        if not cut.token_ids:
            raise InternalFailure("the target answered a round without a token")
        return cut

    def _move_on(self, cut: Cut, facts: RoundFacts) -> None:
        """Moves the tree along the output and tells the draft, before anything else is done."""
        steps = self._tree.advance(cut.token_ids)
        if self._drafting is None:
            return
        if cut.finish_reason is not None:
            self._tree.clear()
        elif self._target.half_used(len(self._prefix)):
            self._drafting.go_on(offset=self._offset, in_run=self._target.running)
        # The first round read the prompt: its time says nothing of those to come.
        first = self.statistics.rounds == 0
        self._drafting.decided(None if first else facts, unjudged=steps[facts.drafted :])
