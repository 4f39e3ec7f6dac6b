"""Tracing by the standard `OTEL_*` variables; off unless an endpoint or exporter is named.

Off means the API's no-op tracer: nothing is started and a span costs about nothing. Spans are
started and ended explicitly and never made current across a yield, and their context travels in
each message, since one stream outlives many spans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

GENERATE_SPAN = "generate"
ROUND_SPAN = "round"
DRAFT_SPAN = "draft"
VERIFY_SPAN = "verify"
DRAFT_ROUND_SPAN = "draft.round"
TARGET_ROUND_SPAN = "target.round"

OPERATION_NAME = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"

ROUNDS = "outrider.rounds"
ROUND_NUMBER = "outrider.round.number"
DRAFT_TOKENS = "outrider.draft_tokens"
ACCEPTED_TOKENS = "outrider.accepted_tokens"
OUTPUT_TOKENS = "outrider.output_tokens"
DRAFT_MISSED = "outrider.draft_missed"
QUEUE_US = "outrider.queue_us"
FORWARD_US = "outrider.forward_us"
SAMPLING_US = "outrider.sampling_us"
BATCH_SIZE = "outrider.batch_size"
REPLICA_ID = "service.instance.id"

FLUSH_TIMEOUT_MS = 5_000

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_propagator = TraceContextTextMapPropagator()


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the standard variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporter:
        return exporter == "otlp"
    return any(environment.get(name) for name in _ENDPOINTS)


def configure(service_name: str, *, replica_id: str) -> Callable[[], None]:
    """Starts the export when it is wanted; returns what to call at shutdown (flushes, bounded)."""
    if not wanted():
        return lambda: None
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes: dict[str, str] = {REPLICA_ID: replica_id}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        attributes[SERVICE_NAME] = service_name
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)

    def shut_down() -> None:
        provider.force_flush(FLUSH_TIMEOUT_MS)
        provider.shutdown()

    return shut_down


def tracer() -> Tracer:
    """The tracer of all Outrider spans."""
    return trace.get_tracer("outrider")


def inject(span: Span) -> tuple[str, str]:
    """(`traceparent`, `tracestate`) of a span; empty strings when it is not traced."""
    context = span.get_span_context()
    if not context.is_valid:
        return "", ""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context=trace.set_span_in_context(span))
    return carrier.get("traceparent", ""), carrier.get("tracestate", "")


def extract(traceparent: str, tracestate: str = "") -> Context | None:
    """The parent context that a message names; None where it names none."""
    if not traceparent:
        return None
    return _propagator.extract({"traceparent": traceparent, "tracestate": tracestate})


def start_generation(metadata: Iterable[tuple[str, str | bytes]] | None, model: str) -> Span:
    """The span of one generation, a child of the caller's span when its metadata names one."""
    headers = {key: value for key, value in metadata or () if isinstance(value, str)}
    parent = extract(headers.get("traceparent", ""), headers.get("tracestate", ""))
    attributes = {OPERATION_NAME: "text_completion"}
    if model:
        attributes[REQUEST_MODEL] = model
    return tracer().start_span(
        GENERATE_SPAN, context=parent, kind=SpanKind.SERVER, attributes=attributes
    )


def record_failure(span: Span, error: BaseException) -> None:
    """Marks a span as failed by the kind of error; its text may quote input and stays out."""
    if span.is_recording():
        span.set_attribute(ERROR_TYPE, type(error).__name__)
        span.set_status(StatusCode.ERROR)


def trace_id(span: Span) -> str:
    """The trace's id in hexadecimal; empty when it is not traced."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else ""
