"""Tracing by the standard `OTEL_*` variables; off unless an endpoint or exporter is named.

Off means the API's no-op tracer: nothing is started and a span costs about nothing. Spans are
started and ended explicitly and never made current across a yield, and their context travels in
each message, since one stream outlives many spans.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

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
PROVIDER_NAME = "gen_ai.provider.name"
ERROR_TYPE = "error.type"
RPC_SYSTEM = "rpc.system.name"
RPC_METHOD = "rpc.method"

ROUNDS = "outrider.rounds"
ANSWERS = "outrider.answers"
ROUND_NUMBER = "outrider.round.number"
DRAFT_TOKENS = "outrider.draft_tokens"
ACCEPTED_TOKENS = "outrider.accepted_tokens"
OUTPUT_TOKENS = "outrider.output_tokens"
DRAFT_MISSED = "outrider.draft_missed"
DRAFT_WAIT_US = "outrider.draft_wait_us"
CANCELLED = "outrider.cancelled"
QUEUE_US = "outrider.queue_us"
FORWARD_US = "outrider.forward_us"
SAMPLING_US = "outrider.sampling_us"
BATCH_SIZE = "outrider.batch_size"

GENERATE_METHOD = "outrider.v1.GenerationService/Generate"
LONGEST_MODEL_NAME = 128

FLUSH_TIMEOUT_S = 2.0
"""A collector that is gone holds the end of a process up for no longer than this."""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_propagator = TraceContextTextMapPropagator()
# Stands for the provider's tracer once there is one; asking the provider each time is costly.
_tracer = trace.get_tracer("outrider", __version__)
_log = logging.getLogger(__name__)


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the standard variables ask for traces by OTLP over gRPC.

    Without `OTEL_TRACES_EXPORTER` it takes an endpoint: nobody is called unasked.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not (exporters or any(environment.get(name) for name in _ENDPOINTS)):
        return False
    if exporters and "otlp" not in [name.strip() for name in exporters.split(",")]:
        if exporters != "none":
            _log.warning("no traces: OTEL_TRACES_EXPORTER may be otlp or none, not %s", exporters)
        return False
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "grpc")
    if protocol.strip().lower() != "grpc":
        _log.warning("no traces: the OTLP protocol may be grpc, not %s", protocol)
        return False
    return True


def configure(service_name: str, *, replica_id: str) -> Callable[[], None]:
    """Starts the export when it is wanted; once for a process.

    Returns what to call at its end: sends what is left, within FLUSH_TIMEOUT_S. Variables that the
    SDK cannot read leave tracing off, with a warning: a service works without.
    """
    if not wanted():
        return lambda: None
    try:
        provider = _start_export(service_name, replica_id)
    except Exception:
        _log.warning("no traces: the OTEL variables are not usable", exc_info=True)
        return lambda: None
    trace.set_tracer_provider(provider)

    def shut_down() -> None:
        # The SDK's own limits do not hold while an export is on its way.
        ending = threading.Thread(target=provider.shutdown, name="trace-flush", daemon=True)
        ending.start()
        ending.join(FLUSH_TIMEOUT_S)

    return shut_down


def _start_export(service_name: str, replica_id: str) -> TracerProvider:
    # Loaded only here: the SDK and its exporter cost a third of a second.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = {
        "service.name": service_name,
        "service.version": __version__,
        "service.instance.id": replica_id,
    }
    # What the operator says about the service wins.
    given = OTELResourceDetector().detect().attributes
    resource = Resource.create({key: value for key, value in ours.items() if key not in given})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def tracer() -> Tracer:
    """The tracer of all Outrider spans."""
    return _tracer


def inject(span: Span) -> tuple[str, str]:
    """(`traceparent`, `tracestate`) of a span; empty strings when it is not traced."""
    context = span.get_span_context()
    if not context.is_valid:
        return "", ""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context=trace.set_span_in_context(span))
    return carrier.get("traceparent", ""), carrier.get("tracestate", "")


def extract(traceparent: str, tracestate: str = "") -> Context:
    """The parent context that a message names; an empty one, for a new trace, where it names none
    or none that can be read."""
    if not traceparent:
        return Context()
    carrier = {"traceparent": traceparent, "tracestate": tracestate}
    return _propagator.extract(carrier, context=Context())


def start_generation(metadata: Iterable[tuple[str, str | bytes]] | None, model: str) -> Span:
    """The span of one generation, a child of the caller's span when its metadata names one."""
    headers = {key: value for key, value in metadata or () if isinstance(value, str)}
    parent = extract(headers.get("traceparent", ""), headers.get("tracestate", ""))
    attributes = {
        OPERATION_NAME: "text_completion",
        PROVIDER_NAME: "outrider",
        RPC_SYSTEM: "grpc",
        RPC_METHOD: GENERATE_METHOD,
    }
    if model:
        attributes[REQUEST_MODEL] = model[:LONGEST_MODEL_NAME]
    return tracer().start_span(
        GENERATE_SPAN, context=parent, kind=SpanKind.SERVER, attributes=attributes
    )


def record_failure(span: Span, error: BaseException) -> None:
    """Marks a span as failed by the kind of error; its text may quote input and stays out.

    A call that was no longer wanted is marked as cancelled: that is no failure.
    """
    if not span.is_recording():
        return
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        span.set_attribute(CANCELLED, True)
        return
    span.set_attribute(ERROR_TYPE, type(error).__name__)
    span.set_status(StatusCode.ERROR)


def trace_id(span: Span) -> str:
    """The trace's id in hexadecimal; empty when it is not traced."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else ""
