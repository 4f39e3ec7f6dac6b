"""The public service."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace import Span

from coordinator.admission import Admission
from coordinator.generation import Generation, SessionTerms
from coordinator.pools import Pools
from coordinator.request import RequestLimits, RequestPlanner
from coordinator.statistics import SpeculationStatistics
from outrider import __version__, telemetry
from outrider.rpc.access import current_caller
from outrider.rpc.server import ServicerContext
from outrider.v1 import generation_pb2, generation_pb2_grpc


@dataclass(frozen=True, slots=True)
class GenerationTerms:
    """What a deployment fixes for all generations."""

    limits: RequestLimits
    max_generations: int
    max_waiting: int
    queue_wait_s: float
    trust_drafts: bool
    target_wait_s: float


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Generates text with the pools it is given."""

    def __init__(self, pools: Pools, terms: GenerationTerms) -> None:
        self._pools = pools
        self._terms = terms
        self._started = time.monotonic()
        self._admission = Admission(
            running=terms.max_generations, waiting=terms.max_waiting, wait_s=terms.queue_wait_s
        )
        self._finished = 0
        self._totals = SpeculationStatistics()

    async def Generate(  # noqa: N802
        self, request: generation_pb2.GenerateRequest, context: ServicerContext
    ) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        """Streams one generation."""
        arrived = time.perf_counter()
        span = telemetry.start_generation(context.invocation_metadata(), request.model)
        try:
            left_s = context.time_remaining()
            terms = SessionTerms(
                arrived=arrived,
                deadline=arrived + left_s if left_s is not None else None,
                target_wait_s=self._terms.target_wait_s,
                trust_drafts=self._terms.trust_drafts,
            )
            async with (
                self._admission.place(current_caller().name),
                aclosing(self._generate(request, span, terms)) as responses,
            ):
                async for response in responses:
                    yield response
        except Exception as error:
            telemetry.record_failure(span, error)
            raise
        finally:
            span.end()

    async def GetStatus(  # noqa: N802
        self,
        request: generation_pb2.GenerationServiceGetStatusRequest,
        context: ServicerContext,
    ) -> generation_pb2.GenerationServiceGetStatusResponse:
        """The pools as they are now, and sums over all generations."""
        pools, limits = self._pools, self._terms.limits
        await pools.probe()
        return generation_pb2.GenerationServiceGetStatusResponse(
            targets=[replica.to_message() for replica in pools.targets.all],
            drafts=[replica.to_message() for replica in pools.drafts.all],
            running=self._admission.running,
            waiting=self._admission.waiting,
            refused=self._admission.refused,
            finished=self._finished,
            speculation=self._totals.to_message(),
            build_version=__version__,
            uptime_s=time.monotonic() - self._started,
            speculation_mode=limits.speculation.mode,
            draft_length=limits.speculation.draft_length,
            policy=pools.policy.status(),
        )

    async def _generate(
        self, request: generation_pb2.GenerateRequest, span: Span, terms: SessionTerms
    ) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        target = self._pools.target_model(name=request.model, weights_digest=request.weights_digest)
        planner = RequestPlanner(target.model, target.tokenizer, self._terms.limits)
        plan = await planner.plan(request)
        generation = Generation(plan, target=target, pools=self._pools, terms=terms, span=span)
        try:
            async with aclosing(generation.run()) as responses:
                async for response in responses:
                    if response.HasField("summary"):
                        _describe(span, response.summary)
                    yield response
        finally:
            self._totals.add(generation.statistics)
            self._finished += 1


def _describe(span: Span, summary: generation_pb2.GenerationSummary) -> None:
    """Puts the sums of a generation on its span; prompts and outputs are never recorded."""
    if not span.is_recording():
        return
    speculation = summary.speculation
    span.set_attributes(
        {
            telemetry.RESPONSE_MODEL: summary.model,
            telemetry.INPUT_TOKENS: summary.usage.prompt_tokens,
            telemetry.USAGE_OUTPUT_TOKENS: summary.usage.output_tokens,
            telemetry.ROUNDS: speculation.rounds,
            telemetry.DRAFT_TOKENS: speculation.draft_tokens,
            telemetry.ACCEPTED_TOKENS: speculation.accepted_tokens,
        }
    )
    span.set_status(trace.StatusCode.OK)
