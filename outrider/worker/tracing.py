"""The span of one round at a worker, a child of the coordinator's call span."""

from __future__ import annotations

from opentelemetry.trace import SpanKind

from outrider import telemetry
from outrider.engine.loop import RoundTimings
from outrider.v1 import common_pb2


class WorkerTrace:
    """Started when a round arrives, ended with its last answer; all is summed over answers."""

    def __init__(self, name: str, context: common_pb2.TraceContext) -> None:
        self._span = telemetry.tracer().start_span(
            name,
            context=telemetry.extract(context.traceparent, context.tracestate),
            kind=SpanKind.SERVER,
        )
        self._answers = 0
        self._tokens = 0
        self._queue_us = 0
        self._forward_us = 0
        self._sampling_us = 0

    def answered(self, timings: RoundTimings, *, tokens: int) -> None:
        """Adds the draft tokens of an answer, and where its time went."""
        if not self._span.is_recording():
            return
        self._answers += 1
        self._tokens += tokens
        self._queue_us += timings.queue_us
        self._forward_us += timings.forward_us
        self._sampling_us += timings.sampling_us
        self._span.set_attributes(
            {
                telemetry.ANSWERS: self._answers,
                telemetry.DRAFT_TOKENS: self._tokens,
                telemetry.QUEUE_US: self._queue_us,
                telemetry.FORWARD_US: self._forward_us,
                telemetry.SAMPLING_US: self._sampling_us,
                telemetry.BATCH_SIZE: timings.batch_size,
            }
        )

    def end(self) -> None:
        """Ends the span."""
        self._span.end()
