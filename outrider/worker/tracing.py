"""The span of one round at a worker, a child of the coordinator's call span."""

from __future__ import annotations

from opentelemetry.trace import SpanKind

from outrider import telemetry
from outrider.engine.loop import RoundTimings
from outrider.v1 import common_pb2


class WorkerTrace:
    """Started when a round arrives, ended when it is answered."""

    def __init__(self, name: str, context: common_pb2.TraceContext) -> None:
        self._span = telemetry.tracer().start_span(
            name,
            context=telemetry.extract(context.traceparent, context.tracestate),
            kind=SpanKind.SERVER,
        )

    def answered(self, timings: RoundTimings, *, tokens: int) -> None:
        """Records how many draft tokens there were and where the time went."""
        if self._span.is_recording():
            self._span.set_attributes(
                {
                    telemetry.DRAFT_TOKENS: tokens,
                    telemetry.QUEUE_US: timings.queue_us,
                    telemetry.FORWARD_US: timings.forward_us,
                    telemetry.SAMPLING_US: timings.sampling_us,
                    telemetry.BATCH_SIZE: timings.batch_size,
                }
            )

    def end(self) -> None:
        """Ends the span."""
        self._span.end()
