"""Structured logs on standard error. Prompts, outputs and secrets are never logged."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, WrappedLogger

LogFormat = Literal["console", "json"]


def configure_logs(*, level: str, log_format: LogFormat) -> None:
    """Sends structlog's events to standard error, one line each, from `level` on."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    tracebacks: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info] if log_format == "json" else []
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            *tracebacks,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _add_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Names the trace when the code runs inside a span."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event
