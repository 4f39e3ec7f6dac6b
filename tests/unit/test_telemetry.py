"""Trace context as plain strings, and when tracing is wanted."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, StatusCode

from outrider import telemetry

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def span() -> Span:
    """A recording span of a provider of its own."""
    return TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("x")


def test_a_context_survives_the_wire(span: Span) -> None:
    traceparent, tracestate = telemetry.inject(span)
    assert len(traceparent) == 55
    received = trace.get_current_span(telemetry.extract(traceparent, tracestate))
    sent, got = span.get_span_context(), received.get_span_context()
    assert (got.trace_id, got.span_id, got.trace_flags) == (
        sent.trace_id,
        sent.span_id,
        sent.trace_flags,
    )
    assert got.is_remote
    assert telemetry.trace_id(span) == traceparent.split("-")[1]


@pytest.mark.parametrize(
    "traceparent",
    ["", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" + PARENT[2:], PARENT[:-1]],
)
def test_an_unreadable_context_starts_a_new_trace(traceparent: str) -> None:
    parent = trace.get_current_span(telemetry.extract(traceparent, "a=1"))
    assert not parent.get_span_context().is_valid


def test_extracting_ignores_the_span_that_happens_to_be_current(span: Span) -> None:
    with trace.use_span(span):
        assert telemetry.extract("") == {}


def test_what_is_not_traced_has_empty_strings() -> None:
    assert telemetry.inject(trace.INVALID_SPAN) == ("", "")
    assert telemetry.trace_id(trace.INVALID_SPAN) == ""


def test_without_an_sdk_the_callers_trace_passes_through() -> None:
    root = telemetry.start_generation([("traceparent", PARENT), ("key-bin", b"\xff")], "m" * 1000)
    assert not root.is_recording()
    assert telemetry.inject(root)[0] == PARENT
    root.end()


def test_a_failure_is_named_by_its_kind_alone(span: Span) -> None:
    telemetry.record_failure(span, ValueError("the prompt was hunter2"))
    assert span.status.status_code is StatusCode.ERROR  # type: ignore[attr-defined]
    assert span.attributes == {"error.type": "ValueError"}  # type: ignore[attr-defined]
    assert "hunter2" not in span.to_json()  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_a_call_that_is_no_longer_wanted_is_no_failure(span: Span, error: BaseException) -> None:
    telemetry.record_failure(span, error)
    assert span.status.status_code is StatusCode.UNSET  # type: ignore[attr-defined]
    assert span.attributes == {"outrider.cancelled": True}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4317"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, OTLP"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, False),
        ({"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, False),
        ({"OTEL_SDK_DISABLED": "false", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, True),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            False,
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            },
            True,
        ),
    ],
)
def test_when_traces_are_wanted(environment: dict[str, str], expected: bool) -> None:
    assert telemetry.wanted(environment) is expected
