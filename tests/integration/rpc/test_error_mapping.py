"""What callers get when handlers fail, for all four kinds of calls and both styles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
import structlog

from outrider.errors import Exhausted, InvalidRequest, OutOfRange
from outrider.rpc.status import remote_error

STYLES = ["UnaryUnary", "UnaryStream", "UnaryStream written", "StreamUnary", "StreamStream"]
STYLES += ["StreamStream written"]
SECRET = "the prompt was: hunter2"


def behaviour(style: str, act: Callable[[Any], Any]) -> dict[str, Any]:
    """A handler of that style that awaits `act(context)` after its first answer, if it has one."""
    kind, _, written = style.partition(" ")

    async def answer(request: Any, context: Any) -> bytes:
        await act(context)
        return b"done"

    async def generate(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await act(context)

    async def write(request: Any, context: Any) -> None:
        await context.write(b"first")
        await act(context)

    streaming = write if written else generate
    return {kind: streaming if kind.endswith("Stream") else answer}


def kind_of(style: str) -> str:
    return style.partition(" ")[0]


@pytest.mark.parametrize("style", STYLES)
async def test_a_domain_error_names_field_and_range(serve: Any, style: str) -> None:
    async def fail(context: Any) -> None:
        raise InvalidRequest("sampling.top_p", "above 0, up to 1", got=0)

    served = await serve(**behaviour(style, fail))
    remote = remote_error(await served.failure(kind_of(style)))
    assert remote.code is grpc.StatusCode.INVALID_ARGUMENT
    assert remote.reason == "INVALID_FIELD"
    assert remote.metadata == {"field": "sampling.top_p", "allowed": "above 0, up to 1"}
    assert "got 0" in remote.message


@pytest.mark.parametrize("style", STYLES)
async def test_an_unknown_exception_is_logged_and_stays_inside(serve: Any, style: str) -> None:
    async def fail(context: Any) -> None:
        raise KeyError(SECRET)

    served = await serve(**behaviour(style, fail))
    with structlog.testing.capture_logs() as logs:
        error = await served.failure(kind_of(style))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert SECRET not in str(error)
    assert SECRET not in repr(error.trailing_metadata())
    (entry,) = logs
    assert entry["log_level"] == "error"
    assert isinstance(entry["exc_info"], KeyError)


@pytest.mark.parametrize("style", STYLES)
async def test_work_cancelled_inside_ends_the_call(serve: Any, style: str) -> None:
    async def cancel_inner(context: Any) -> None:
        inner = asyncio.create_task(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    served = await serve(**behaviour(style, cancel_inner))
    error = await served.failure(kind_of(style))
    assert error.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("style", STYLES)
async def test_a_handler_may_abort_itself(serve: Any, style: str) -> None:
    async def abort(context: Any) -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "mine", (("key", "value"),))

    served = await serve(**behaviour(style, abort))
    with structlog.testing.capture_logs() as logs:
        error = await served.failure(kind_of(style))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "mine"
    assert dict(error.trailing_metadata() or ())["key"] == "value"
    assert logs == []


@pytest.mark.parametrize("style", [style for style in STYLES if "StreamStream" in style])
async def test_a_call_cancelled_by_its_caller_cleans_up_quietly(
    serve: Any, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned = asyncio.Queue[str]()

    async def wait(context: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.put_nowait("yes")

    served = await serve(**behaviour(style, wait))
    calls = [served.channel.stream_stream("/test.Bytes/StreamStream")() for _ in range(50)]
    with structlog.testing.capture_logs() as logs, caplog.at_level(logging.WARNING):
        for call in calls:
            await call.write(b"x")
            assert await call.read() == b"first"
        for call in calls:
            call.cancel()
        async with asyncio.timeout(60):
            for _ in calls:
                await cleaned.get()
    assert logs == []
    assert caplog.records == []


@pytest.mark.parametrize("style", STYLES)
async def test_the_next_call_works(serve: Any, style: str) -> None:
    failing = iter([True, False])

    async def fail_once(context: Any) -> None:
        if next(failing):
            raise ValueError

    served = await serve(**behaviour(style, fail_once))
    await served.failure(kind_of(style))
    assert await served.call(kind_of(style))


@pytest.mark.parametrize("text", ["x", "é", "語", "\U0001f600", "\x00\n"])
async def test_a_long_text_does_not_hide_the_status(serve: Any, text: str) -> None:
    async def fail(context: Any) -> None:
        error = OutOfRange("field" + text * 30_000, "1 to 2" + text * 30_000, got=text * 30_000)
        error.metadata.update({f"{n}": text * 1000 for n in range(100)})
        raise error

    served = await serve(**behaviour("UnaryUnary", fail))
    remote = remote_error(await served.failure("UnaryUnary"))
    assert remote.code is grpc.StatusCode.OUT_OF_RANGE
    assert remote.reason == "BEYOND_MODEL"
    assert remote.metadata["field"].startswith("field" + text)
    assert "\ufffd" not in remote.message


async def test_a_delay_to_retry_after_arrives(serve: Any) -> None:
    async def fail(context: Any) -> None:
        raise Exhausted("full", retry_after_s=1.25)

    served = await serve(**behaviour("UnaryUnary", fail))
    assert remote_error(await served.failure("UnaryUnary")).retry_after_s == 1.25


async def test_an_unknown_method_is_unimplemented(serve: Any) -> None:
    served = await serve()
    assert (await served.failure("UnaryUnary")).code() is grpc.StatusCode.UNIMPLEMENTED
