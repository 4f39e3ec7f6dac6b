"""The spans of a generation's rounds, and of its calls to both workers.

A call to the target is a child of its round. One to the draft is a child of the generation: it
begins when a round is decided, and may go on while the next ones are verified. Spans are started
and ended explicitly and never made current, since the decode loop is an async generator that may
be closed from another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from coordinator.proposal import Proposal
from coordinator.worker_time import MICROSECONDS_PER_S
from outrider import telemetry
from outrider.v1 import common_pb2, draft_pb2

LARGEST_ATTRIBUTE = 2**63 - 1
"""Integers of a span have 64 bits with a sign; a worker's message may say more."""


class SpanScope:
    """A span that ends with a block, marked as failed when the block raises."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is not None:
            telemetry.record_failure(self._span, error)
        self.end()

    def end(self) -> None:
        """Ends the span."""
        self._span.end()


class CallTrace(SpanScope):
    """The span of one call to a worker. A context manager: ends the span."""

    def __init__(self, name: str, parent: Span) -> None:
        super().__init__(_child(name, parent, kind=SpanKind.CLIENT))
        traceparent, tracestate = telemetry.inject(self._span)
        self.context = common_pb2.TraceContext(traceparent=traceparent, tracestate=tracestate)

    def answered(self, timings: common_pb2.Timings, *, tokens: int) -> None:
        """Records what the worker reported."""
        if self._span.is_recording():
            self._span.set_attributes(
                {
                    telemetry.DRAFT_TOKENS: tokens,
                    telemetry.QUEUE_US: min(timings.queue_us, LARGEST_ATTRIBUTE),
                    telemetry.FORWARD_US: min(timings.forward_us, LARGEST_ATTRIBUTE),
                    telemetry.SAMPLING_US: min(timings.sampling_us, LARGEST_ATTRIBUTE),
                    telemetry.BATCH_SIZE: timings.batch_size,
                }
            )


class DraftTrace(CallTrace):
    """The span of one round of the draft, from the commit to the last tokens."""

    def __init__(self, parent: Span) -> None:
        super().__init__(telemetry.DRAFT_SPAN, parent)
        self._told = (0, 0, 0, 0)

    def proposed(self, proposal: draft_pb2.Proposal) -> None:
        """Adds what one of its proposals brought."""
        if not self._span.is_recording():
            return
        timings = proposal.timings
        told = (len(proposal.tokens), timings.queue_us, timings.forward_us, timings.sampling_us)
        sums = (before + now for before, now in zip(self._told, told, strict=True))
        tokens, queue_us, forward_us, sampling_us = (min(s, LARGEST_ATTRIBUTE) for s in sums)
        self._told = (tokens, queue_us, forward_us, sampling_us)
        self._span.set_attributes(
            {
                telemetry.DRAFT_TOKENS: tokens,
                telemetry.QUEUE_US: queue_us,
                telemetry.FORWARD_US: forward_us,
                telemetry.SAMPLING_US: sampling_us,
                telemetry.BATCH_SIZE: timings.batch_size,
            }
        )


class RoundTrace(SpanScope):
    """The span of one round. A context manager: ends the span."""

    def __init__(self, parent: Span, *, number: int) -> None:
        super().__init__(_child(telemetry.ROUND_SPAN, parent, kind=SpanKind.INTERNAL))
        self._span.set_attribute(telemetry.ROUND_NUMBER, number)

    def verify(self) -> CallTrace:
        """The span of the round's verify call."""
        return CallTrace(telemetry.VERIFY_SPAN, self._span)

    def proposed(self, proposal: Proposal) -> None:
        """Records how the round came by its draft tokens."""
        if self._span.is_recording():
            wait_us = round(proposal.wait_s * MICROSECONDS_PER_S)
            self._span.set_attribute(telemetry.DRAFT_WAIT_US, wait_us)
            if proposal.missed:
                self._span.set_attribute(telemetry.DRAFT_MISSED, True)

    def decided(self, *, drafted: int, accepted: int, output: Sequence[int]) -> None:
        """Records the verdict by its counts; ids are never recorded."""
        if self._span.is_recording():
            self._span.set_attributes(
                {
                    telemetry.DRAFT_TOKENS: drafted,
                    telemetry.ACCEPTED_TOKENS: accepted,
                    telemetry.OUTPUT_TOKENS: len(output),
                }
            )


def _child(name: str, parent: Span, *, kind: SpanKind) -> Span:
    """A span below `parent`; where that is not traced, neither is this, at no cost."""
    if not parent.get_span_context().is_valid:
        return trace.INVALID_SPAN
    return telemetry.tracer().start_span(name, context=trace.set_span_in_context(parent), kind=kind)
