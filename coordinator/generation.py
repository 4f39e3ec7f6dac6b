"""One generation from its plan to its last message."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from opentelemetry.trace import Span

from coordinator.decode import DecodeLoop
from coordinator.draft_session import DraftSession
from coordinator.ending import cut_output
from coordinator.plan import GenerationPlan
from coordinator.pools import Pools, ReadyTarget
from coordinator.statistics import SpeculationStatistics
from coordinator.target_session import TargetSession
from coordinator.text.detokenizer import Detokenizer
from outrider import PROTOCOL_VERSION, telemetry
from outrider.randomness import Purpose, derive_seed
from outrider.v1 import common_pb2, draft_pb2, generation_pb2, model_pb2, target_pb2

EXACT_DTYPES = ("float32", "float64")
CHOICE_INDEX = 0
DECODE_TOKENS = "decode_tokens"
"""The feature of a target that decodes several tokens alone, without a round trip for each."""
RUN_CREDIT = 32
"""Tokens that such a target may be ahead: enough to hide round trips, little enough to waste."""


class Generation:
    """Runs one plan against the pools and words the answer."""

    def __init__(
        self,
        plan: GenerationPlan,
        *,
        target: ReadyTarget,
        pools: Pools,
        arrived: float,
        draft_timeout_s: float,
        draft_mode: draft_pb2.DraftMode.ValueType,
        span: Span,
    ) -> None:
        """`arrived`: when the request did, in seconds of time.perf_counter."""
        self._plan = plan
        self._pools = pools
        self._model = target.model
        self._span = span
        self._arrived = arrived
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
            target.peer,
            _verify_open(plan),
            run_credit=RUN_CREDIT if DECODE_TOKENS in self._model.features else 0,
        )
        self._draft = (
            DraftSession(
                pools.draft_peer,
                _draft_open(plan, mode=draft_mode, model=self._model),
                timeout_s=draft_timeout_s,
            )
            if plan.draft_length and pools.draft is not None
            else None
        )
        self._loop = DecodeLoop(
            plan,
            target=self._target,
            draft=self._draft,
            draft_context_length=pools.draft_context_length,
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
                        if offset == len(plan.resumed_token_ids):
                            self._first_token()
                        yield self._chunk(cut.token_ids, offset)
                        offset += len(cut.token_ids)
                        finish = cut.finish_reason
            yield self._summary(finish or generation_pb2.FINISH_REASON_UNSPECIFIED, offset)
            # The call ends when the target's room is free again, for a client's next request.
            await self._target.close()
        finally:
            self._pools.end_later(self._target.close())
            if self._draft is not None:
                self._pools.end_later(self._draft.close())

    def _first_token(self) -> None:
        elapsed_s = time.perf_counter() - self._arrived
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
                speculation=self.statistics.to_message(),
                seed=plan.seed,
                reproducible=(plan.greedy or plan.coupled) and self._model.dtype in EXACT_DTYPES,
                model=self._model.name,
                trace_id=telemetry.trace_id(self._span),
            )
        )


def _verify_open(plan: GenerationPlan) -> target_pb2.VerifyOpen:
    return target_pb2.VerifyOpen(
        protocol_version=PROTOCOL_VERSION,
        sampling=plan.sampling,
        choice_index=CHOICE_INDEX,
        prompt_length=len(plan.prompt_token_ids),
        cache_scope=plan.cache_scope,
    )


def _draft_open(
    plan: GenerationPlan, *, mode: draft_pb2.DraftMode.ValueType, model: model_pb2.GetModelResponse
) -> draft_pb2.DraftOpen:
    """The draft gets a seed of its own, never the request's, and none when it draws nothing.

    With COUPLED any draft gets that of the shared noise: it cannot steer the output there.
    """
    if plan.coupled:
        mode = draft_pb2.DRAFT_MODE_SAMPLED
    sampling = common_pb2.SamplingParams()
    sampling.CopyFrom(plan.sampling)
    sampling.ClearField("seed")
    message = draft_pb2.DraftOpen(
        protocol_version=PROTOCOL_VERSION,
        sampling=sampling,
        choice_index=CHOICE_INDEX,
        prompt_length=len(plan.prompt_token_ids),
        cache_scope=plan.cache_scope,
        mode=mode,
        vocabulary_size=model.vocabulary_size,
    )
    if mode == draft_pb2.DRAFT_MODE_SAMPLED:
        purpose = Purpose.COUPLE if plan.coupled else Purpose.DRAFT
        message.derived_seed = derive_seed(purpose, seed=plan.seed, choice_index=CHOICE_INDEX)
    return message
