"""Calls that end: in order, by themselves, or because their channel is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio

STATUS_LAG_S = 0.5


class CancelledCallError(Exception):
    """A call was cancelled while it was awaited, as when its channel is closed."""


CLOSED_CALL_ERRORS = (
    aio.UsageError,
    aio.InternalError,
    asyncio.InvalidStateError,
    CancelledCallError,
)
"""What a write to, or a read from, a call gives that is already over; the last one only within
`awaited_calls`."""

CLOCKS_APART_S = 0.05
"""A call may end that much before its time is up by another clock."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a channel: a restarted one has another replica id."""

    channel: aio.Channel
    replica_id: str


def out_of_time(deadline: float | None) -> bool:
    """What fails now fails because its caller's time is up.

    `deadline`: in seconds of time.perf_counter; None: there is none.
    """
    return deadline is not None and time.perf_counter() >= deadline - CLOCKS_APART_S


@contextmanager
def awaited_calls() -> Iterator[None]:
    """A CancelledError of a call that is awaited in here becomes a CancelledCallError; one that
    asks the running task to stop passes."""
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CancelledCallError from error


async def send(call: aio.StreamStreamCall[Any, Any], message: Message) -> None:
    """Writes a message to a call whose end may come at any moment.

    `write` of grpc.aio, where it fails, puts an INTERNAL of its own in the place of the status with
    which the peer ended the call, so that a refusal looks like a broken network. This leaves the
    call as it is and raises one of CLOSED_CALL_ERRORS: `error_of` tells what ended it. Raises
    AioRpcError when the call was over before it began.
    """
    await call.wait_for_connection()
    if call.done():
        raise asyncio.InvalidStateError("the call is over")
    try:
        await call._cython_call.send_serialized_message(  # type: ignore[attr-defined]
            call._request_serializer(message)  # type: ignore[attr-defined]
        )
    except asyncio.CancelledError:
        call.cancel()
        raise


async def error_of(call: aio.StreamStreamCall[Any, Any]) -> aio.AioRpcError | None:
    """What ended a call that was found over; None when it is not, or ended in order.

    Its status may come a moment after the failure to write to it.
    """
    try:
        async with asyncio.timeout(STATUS_LAG_S):
            with awaited_calls():
                code = await call.code()
                if code is grpc.StatusCode.OK:
                    return None
                return aio.AioRpcError(
                    code,
                    await call.initial_metadata(),
                    await call.trailing_metadata(),
                    details=await call.details(),
                )
    except (TimeoutError, *CLOSED_CALL_ERRORS):
        return None


async def finish_call(call: aio.StreamStreamCall[Any, Any], *, patience_s: float = 1.0) -> None:
    """Half-closes a stream and waits briefly for its end; cancels it if that does not come."""
    try:
        async with asyncio.timeout(patience_s):
            with awaited_calls():
                await call.done_writing()
                while await call.read() is not aio.EOF:
                    pass
    except (TimeoutError, aio.AioRpcError, *CLOSED_CALL_ERRORS):
        pass
    finally:
        if not call.done():
            call.cancel()
