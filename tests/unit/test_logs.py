"""Log lines: their form, their trace, and what they never hold."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from outrider.logs import configure_logs


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_json_lines_on_standard_error_name_level_and_logger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(level="info", log_format="json")
    structlog.get_logger("outrider.test").info("serving", address="127.0.0.1:1")
    structlog.get_logger("outrider.test").debug("not shown")
    logging.getLogger("library").warning("from %s", "the library")
    ours, theirs = lines(capsys)
    assert (ours["event"], ours["level"], ours["logger"]) == ("serving", "info", "outrider.test")
    assert ours["address"] == "127.0.0.1:1"
    assert str(ours["timestamp"]).endswith("Z")
    assert (theirs["event"], theirs["level"]) == ("from the library", "warning")


def test_an_event_names_the_trace_of_its_span(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="info", log_format="json")
    context = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    structlog.get_logger().info("with", span=NonRecordingSpan(context))
    structlog.get_logger().info("without")
    traced, plain = lines(capsys)
    assert traced["trace_id"] == f"{0xABC:032x}"
    assert traced["span_id"] == f"{0xDEF:016x}"
    assert "span" not in traced
    assert "trace_id" not in plain


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_what_callers_wrote_is_withheld(
    capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    configure_logs(level="debug", log_format=log_format)

    def fail(prompt: str) -> None:
        raise ValueError("broken")

    log = structlog.get_logger()
    log.info("asked", prompt="hunter2", token_ids=[7, 7, 7], seed=123456)
    try:
        fail("hun" + "ter2")
    except ValueError:
        log.exception("failed")
    shown = capsys.readouterr().err
    assert "ValueError: broken" in shown
    for secret in ("hunter2", "7, 7, 7", "123456"):
        assert secret not in shown


def test_warnings_become_events(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="warning", log_format="json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old option", DeprecationWarning, stacklevel=1)
    (event,) = lines(capsys)
    assert "old option" in str(event["event"])
