"""Messages from callers: of a bounded size before they are parsed, and parsed before they are used.

Both refusals name what was wrong, instead of the words that gRPC has for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from outrider.errors import InvalidRequest
from outrider.rpc.handlers import Behaviour, Context, Continuation, Handler, wrapped

NAMED_EXCESS_BYTES = 4 << 20


def transport_limit(max_bytes: int) -> int:
    """Where gRPC itself stops reading a message, with RESOURCE_EXHAUSTED: somewhat later, so that
    a request that is a little too large gets an answer that names the limit."""
    return max_bytes + NAMED_EXCESS_BYTES


class RequestSizeInterceptor(aio.ServerInterceptor):
    """Refuses messages of more than `max_bytes`, and those that are none, with InvalidRequest.

    Goes behind the ErrorInterceptor. A single request is read once the interceptors before have
    let its call pass.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        read = _Reader(handler.request_deserializer or bytes, self._max_bytes)
        if handler.request_streaming:
            around = wrapped(
                handler,
                call=lambda behaviour: _call(behaviour, _Messages),
                stream=lambda behaviour: _stream(behaviour, _Messages),
                deserializer=read,
            )
        else:
            around = wrapped(
                handler,
                call=lambda behaviour: _call(behaviour, lambda raw: _known(read(raw))),
                stream=lambda behaviour: _stream(behaviour, lambda raw: _known(read(raw))),
                deserializer=bytes,
            )
        return around or handler


class _Unread:
    """Stands for a message that was not parsed."""

    def __init__(self, fault: InvalidRequest) -> None:
        self.fault = fault


class _Reader:
    """Parses bytes, unless they are too many."""

    def __init__(self, parse: Callable[[bytes], Any], max_bytes: int) -> None:
        self._parse = parse
        self._max_bytes = max_bytes

    def __call__(self, raw: bytes) -> Any:
        """The message or an _Unread: what gRPC calls must not raise."""
        if len(raw) > self._max_bytes:
            allowed = f"at most {self._max_bytes} bytes"
            return _Unread(InvalidRequest("request", allowed, got=len(raw)))
        try:
            return self._parse(raw)
        except DecodeError:
            return _Unread(InvalidRequest("request", "a message of this call"))


class _Messages:
    """The messages of a stream. Raises InvalidRequest at the first that was not parsed."""

    def __init__(self, messages: AsyncIterator[Any]) -> None:
        self._messages = messages

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        return _known(await anext(self._messages))


def _known(message: Any) -> Any:
    if isinstance(message, _Unread):
        raise message.fault
    return message


def _call(behaviour: Behaviour, read: Callable[[Any], Any]) -> Behaviour:
    async def call(request: Any, context: Context) -> Any:
        return await behaviour(read(request), context)

    return call


def _stream(behaviour: Behaviour, read: Callable[[Any], Any]) -> Behaviour:
    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        async with aclosing(behaviour(read(request), context)) as responses:
            async for response in responses:
                yield response

    return stream
