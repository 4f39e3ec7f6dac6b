"""The spans of one round: the round itself, and its draft and verify calls as children.

Spans are started and ended explicitly and never made current, since the decode loop is an
async generator that may be closed from another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from outrider import telemetry
from outrider.v1 import common_pb2

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

    def missed(self) -> None:
        """Records that no draft tokens came in time."""
        self._span.set_attribute(telemetry.DRAFT_MISSED, True)


class RoundTrace(SpanScope):
    """The span of one round. A context manager: ends the span."""

    def __init__(self, parent: Span, *, number: int) -> None:
        super().__init__(_child(telemetry.ROUND_SPAN, parent, kind=SpanKind.INTERNAL))
        self._span.set_attribute(telemetry.ROUND_NUMBER, number)

    def draft(self) -> CallTrace:
        """The span of the round's draft call."""
        return CallTrace(telemetry.DRAFT_SPAN, self._span)

    def verify(self) -> CallTrace:
        """The span of the round's verify call."""
        return CallTrace(telemetry.VERIFY_SPAN, self._span)

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
