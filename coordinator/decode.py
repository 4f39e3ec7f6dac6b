"""The decode loop: draft, verify, commit, until the output ends."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence

from opentelemetry.trace import Span

from coordinator.draft_session import Drafted, DraftSession
from coordinator.ending import Cut, cut_output
from coordinator.plan import GenerationPlan
from coordinator.statistics import SpeculationStatistics
from coordinator.target_session import TargetSession
from coordinator.tracing import RoundTrace
from outrider.errors import InternalFailure
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2, target_pb2

NANOSECONDS_PER_MS = 1_000_000


class DecodeLoop:
    """Decodes one generation round by round.

    The first round has no draft tokens: the target reads the prompt and gives a token, and the
    draft reads the prompt meanwhile. How many tokens are drafted is decided from lengths alone,
    never from a token's value, so that the output law stays the target's.
    """

    def __init__(
        self,
        plan: GenerationPlan,
        *,
        target: TargetSession,
        draft: DraftSession | None,
        draft_context_length: Callable[[], int],
        span: Span,
    ) -> None:
        """`draft` None: the target decodes alone. `draft_context_length` is that of the draft in
        use, 0 while there is none. `span` is the generation's; rounds become its children."""
        self._plan = plan
        self._target = target
        self._draft = draft
        self._draft_context_length = draft_context_length
        self._span = span
        self._prefix = TokenPrefix((*plan.prompt_token_ids, *plan.resumed_token_ids))
        self._decided = 0
        self.statistics = SpeculationStatistics()

    async def run(self) -> AsyncGenerator[Cut, None]:
        """Yields the output of each round as it is decided; the last one has a finish reason."""
        while True:
            cut = await self._round()
            self._prefix.extend(cut.token_ids)
            yield cut
            if cut.finish_reason is not None:
                return

    async def _round(self) -> Cut:
        # In a run the target has been at it since the round before.
        started = self._decided if self._target.running else time.perf_counter_ns()
        statistics = self.statistics
        with RoundTrace(self._span, number=statistics.rounds) as trace:
            drafted = await self._propose(self._draft_length(), trace)
            tokens = drafted.tokens if drafted else ()
            verdict = await self._verify(tokens, trace)
            if verdict.HasField("draft_invalid"):
                statistics.draft_invalid_rounds += 1
                tokens = ()
            cut = cut_output(
                verdict.output_token_ids,
                room=self._plan.length_limit - len(self._prefix),
                stop_token_ids=self._plan.stop_token_ids,
            )
            if not cut.token_ids:
                raise InternalFailure("the target answered a round without a token")
            self._decided = time.perf_counter_ns()
            first = statistics.rounds == 0
            statistics.count_round(
                drafted=len(tokens), accepted=verdict.accepted, output=len(cut.token_ids)
            )
            if not first:
                statistics.count_time(
                    round_ms=(self._decided - started) / NANOSECONDS_PER_MS,
                    target=verdict.timings,
                    draft=drafted.timings if drafted else None,
                )
            trace.decided(drafted=len(tokens), accepted=verdict.accepted, output=cut.token_ids)
        statistics.replays = self._target.replays + (self._draft.replays if self._draft else 0)
        statistics.stale_proposals = self._draft.stale_proposals if self._draft else 0
        return cut

    def _draft_length(self, *, after: int = 0) -> int:
        """Draft tokens wanted `after` further tokens: no more than can still become output."""
        room = self._plan.length_limit - len(self._prefix) - after - 1
        return max(0, min(self._plan.draft_length, room))

    async def _propose(self, draft_length: int, trace: RoundTrace) -> Drafted | None:
        if self._draft is None or draft_length == 0:
            return None
        context_length = self._draft_context_length()
        if context_length == 0:
            self.statistics.draft_missed_rounds += 1
            return None
        draft_length = min(draft_length, context_length - len(self._prefix))
        first = self.statistics.rounds == 0
        # After the first token there must be room for a draft token and one more.
        if draft_length < 1 or (first and self._draft_length(after=1) < 1):
            return None
        with trace.draft() as call:
            if first:
                self._draft.read_ahead(self._prefix, trace=call.context)
                return None
            drafted = await self._draft.propose(self._prefix, draft_length, trace=call.context)
            if drafted is None:
                self.statistics.draft_missed_rounds += 1
                call.missed()
            else:
                call.answered(drafted.timings, tokens=len(drafted.tokens))
        return drafted

    async def _verify(
        self, tokens: Sequence[common_pb2.DraftToken], trace: RoundTrace
    ) -> target_pb2.Verdict:
        room = self._plan.length_limit - len(self._prefix) - 1
        with trace.verify() as call:
            verdict = await self._target.verify(
                self._prefix,
                tokens,
                trace=call.context,
                further=room if self._draft is None else 0,
            )
            call.answered(verdict.timings, tokens=len(tokens))
        return verdict
