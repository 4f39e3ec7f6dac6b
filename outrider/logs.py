"""Structured logs on standard error. Prompts, outputs and secrets are never logged.

One line for each event, of structlog's loggers and of the standard library's alike. An event
that is given `span=` names that span's trace.
"""

from __future__ import annotations

import logging
import sys

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor, WrappedLogger

from outrider.settings import LogFormat

WITHHELD = "[withheld]"
WITHHELD_KEYS = frozenset(
    {
        "authorization",
        "chat",
        "content",
        "cache_scope",
        "committed_token_ids",
        "derived_seed",
        "messages",
        "metadata",
        "output_token_ids",
        "prompt",
        "request",
        "response",
        "seed",
        "text",
        "token_ids",
        "tokens",
    }
)
"""Keys whose values may hold what a caller wrote, or what it got, or a secret."""

QUIET_LOGGERS = ("httpx", "httpcore", "filelock", "urllib3")
"""Libraries whose routine messages are of no use here."""


def configure_logs(*, level: str, log_format: str) -> None:
    """Sends all events from `level` on to standard error; `log_format` is `console` or `json`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
        _withhold,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(log_format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _renderers(log_format: str) -> list[Processor]:
    if log_format == LogFormat.JSON:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Tracebacks stay plain: a richer one would show local variables, prompts among them.
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [console]


def _add_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Names the trace of the event's span, or of the one that the code runs in."""
    span = event.pop("span", None) or trace.get_current_span()
    context = span.get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _withhold(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Hides values that should not have been handed to a logger."""
    for key in WITHHELD_KEYS.intersection(event):
        event[key] = WITHHELD
    return event
