"""One generation from its plan to its last message."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from opentelemetry.trace import Span

from coordinator.decode import DecodeLoop
from coordinator.draft_intake import DraftIntake, DraftLaw
from coordinator.draft_plan import LONGEST_RUN, SpeculationTerms
from coordinator.draft_session import DraftSession
from coordinator.draft_tree import DraftTree
from coordinator.drafting import Drafting
from coordinator.ending import cut_output
from coordinator.open_messages import draft_open, verify_open
from coordinator.pairing import spoken_version
from coordinator.plan import GenerationPlan
from coordinator.policy import GenerationPolicy
from coordinator.pools import Pools
from coordinator.replica import Replica
from coordinator.statistics import SpeculationStatistics
from coordinator.target_model import TargetModel
from coordinator.target_session import TargetSession
from coordinator.text.detokenizer import Detokenizer
from outrider import telemetry
from outrider.errors import OutriderError
from outrider.prefix import TokenPrefix
from outrider.v1 import draft_pb2, generation_pb2

EXACT_DTYPES = ("float32", "float64")
MOST_IDS_IN_AN_ERROR = 1000
"""They take up to 3 KB; gRPC replaces errors beyond 8 KB by another."""


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """What one generation's dealings with workers go by.

    Times in seconds of time.perf_counter: `arrived`, when the request did; `deadline`, until when
    its caller waits, if it said so. `target_wait_s`: how long it waits for a target where it lost
    the last. `trust_drafts`: the laws that drafts report are believed.
    """

    arrived: float
    deadline: float | None
    target_wait_s: float
    trust_drafts: bool


class Generation:
    """Runs one plan against the pools and words the answer."""

    def __init__(
        self,
        plan: GenerationPlan,
        *,
        target: TargetModel,
        pools: Pools,
        terms: SessionTerms,
        span: Span,
    ) -> None:
        self._plan = plan
        self._pools = pools
        self._model = target.model
        self._span = span
        self._terms = terms
        self._placed = target
        self._detokenizer = (
            Detokenizer(
                target.tokenizer,
                plan.resumed_token_ids,
                prompt_token_ids=plan.continued_token_ids,
            )
            if target.tokenizer
            else None
        )
        self._target = TargetSession(
            pools.place_target(target, plan),
            partial(verify_open, plan),
            run_credit=LONGEST_RUN,
            wait_s=terms.target_wait_s,
            deadline=terms.deadline,
            end_later=pools.end_later,
        )
        self._prefix = TokenPrefix((*plan.prompt_token_ids, *plan.resumed_token_ids))
        self._tree = DraftTree(self._prefix)
        self._draft: DraftSession | None = None
        self._policy: GenerationPolicy | None = None
        self._loop = DecodeLoop(
            plan,
            prefix=self._prefix,
            tree=self._tree,
            target=self._target,
            drafting=self._drafting(plan.speculation),
            span=span,
        )

    @property
    def statistics(self) -> SpeculationStatistics:
        """Counts and times so far."""
        return self._loop.statistics

    async def run(self) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        """Yields chunks as tokens are decided, then the summary."""
        plan = self._plan
        offset = len(plan.resumed_token_ids)
        finish = cut_output(
            plan.resumed_token_ids, room=plan.max_new_tokens, stop_token_ids=plan.stop_token_ids
        ).finish_reason
        try:
            if finish is None:
                async with aclosing(self._loop.run()) as cuts:
                    async for cut in cuts:
                        chunk = self._chunk(cut.token_ids, offset)
                        if offset == len(plan.resumed_token_ids):
                            self._first_token()
                            chunk.chunk.origin.CopyFrom(self._origin)
                        yield chunk
                        offset += len(cut.token_ids)
                        finish = cut.finish_reason
            yield self._summary(finish or generation_pb2.FINISH_REASON_UNSPECIFIED, offset)
            # The call ends when the target's room is free again, for a client's next request.
            await self._target.close()
        except OutriderError as error:
            error.attachments = (*error.attachments, self._interrupted())
            raise
        finally:
            self._pools.end_later(self._target.close())
            if self._draft is not None:
                self._pools.end_later(self._draft.close())

    def _drafting(self, terms: SpeculationTerms | None) -> Drafting | None:
        """What is to be done with a draft; None when there is to be none."""
        plan, pools = self._plan, self._pools
        if terms is None or not pools.drafts.configured:
            return None
        law = DraftLaw.REPORTED if self._terms.trust_drafts else DraftLaw.POINT_MASS
        self._policy = pools.policy.generation(terms)
        intake = DraftIntake(self._tree, self._policy, law=DraftLaw.NONE if plan.coupled else law)
        self._draft = DraftSession(
            pools.place_draft(self._placed, plan),
            self._draft_open,
            prefix=self._prefix,
            tree=self._tree,
            intake=intake,
            span=self._span,
            end_later=pools.end_later,
            deadline=self._terms.deadline,
        )
        return Drafting(
            terms=terms,
            policy=self._policy,
            session=self._draft,
            intake=intake,
            tree=self._tree,
            room=self._draft_room,
        )

    def _draft_open(self, replica: Replica) -> draft_pb2.DraftOpen:
        trusted = self._terms.trust_drafts and replica.honesty.trusted
        return draft_open(
            self._plan,
            spoken_version(replica.model),
            mode=draft_pb2.DRAFT_MODE_SAMPLED if trusted else draft_pb2.DRAFT_MODE_GREEDY,
            model=self._model,
        )

    def _draft_room(self) -> int:
        """Draft tokens that can still become output, one of the target's behind them, and that
        the draft's context has room for."""
        room = self._plan.length_limit - 1
        if self._draft is not None and (context_length := self._draft.context_length):
            room = min(room, context_length)
        return room - len(self._prefix)

    @property
    def _origin(self) -> generation_pb2.GenerationOrigin:
        return generation_pb2.GenerationOrigin(
            model=self._model.name,
            weights_digest=self._model.weights_digest,
            seed=self._plan.seed,
        )

    def _interrupted(self) -> generation_pb2.InterruptedGeneration:
        """What was decided so far: the last of it where all would be too long for an error."""
        output = self._prefix.token_ids[len(self._plan.prompt_token_ids) :]
        offset = max(0, len(output) - MOST_IDS_IN_AN_ERROR)
        return generation_pb2.InterruptedGeneration(
            offset=offset, output_token_ids=output[offset:], origin=self._origin
        )

    def _first_token(self) -> None:
        elapsed_s = time.perf_counter() - self._terms.arrived
        self.statistics.time_to_first_token_ms = elapsed_s * 1000

    def _chunk(self, token_ids: Sequence[int], offset: int) -> generation_pb2.GenerateResponse:
        text = self._detokenizer.push(token_ids) if self._detokenizer else ""
        return generation_pb2.GenerateResponse(
            chunk=generation_pb2.OutputChunk(offset=offset, token_ids=token_ids, text=text)
        )

    def _summary(
        self, finish: generation_pb2.FinishReason.ValueType, output_tokens: int
    ) -> generation_pb2.GenerateResponse:
        plan = self._plan
        return generation_pb2.GenerateResponse(
            summary=generation_pb2.GenerationSummary(
                finish_reason=finish,
                text=self._detokenizer.finish() if self._detokenizer else "",
                usage=generation_pb2.Usage(
                    prompt_tokens=len(plan.prompt_token_ids), output_tokens=output_tokens
                ),
                speculation=self.statistics.to_message(
                    changes=self._policy.changes if self._policy is not None else ()
                ),
                seed=plan.seed,
                reproducible=(plan.greedy or plan.coupled) and self._model.dtype in EXACT_DTYPES,
                model=self._model.name,
                trace_id=telemetry.trace_id(self._span),
            )
        )
