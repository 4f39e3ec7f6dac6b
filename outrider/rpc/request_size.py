"""The size limit of requests, answered with a status that names it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from grpc import aio

from outrider.errors import InvalidRequest
from outrider.rpc.handlers import Context, Continuation, Handler
from outrider.rpc.limits import MAX_MESSAGE_BYTES


def transport_limit(max_bytes: int) -> int:
    """Where gRPC itself stops reading a message, with RESOURCE_EXHAUSTED: somewhat later, so that
    a request that is a little too large gets an answer that names the limit."""
    return max(max_bytes, MAX_MESSAGE_BYTES)


class RequestSizeInterceptor(aio.ServerInterceptor):
    """Refuses single requests of more than `max_bytes` with InvalidRequest.

    Goes behind the ErrorInterceptor. Streams of requests have the transport's limit alone.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        if inspect.isasyncgenfunction(handler.unary_stream):
            return grpc.unary_stream_rpc_method_handler(
                self._checked_stream(handler.unary_stream),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if inspect.iscoroutinefunction(handler.unary_unary):
            return grpc.unary_unary_rpc_method_handler(
                self._checked_call(handler.unary_unary),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return handler

    def _check(self, request: Any) -> None:
        size = request.ByteSize()
        if size > self._max_bytes:
            raise InvalidRequest("request", f"at most {self._max_bytes} bytes", got=size)

    def _checked_call(self, behaviour: Any) -> Any:
        async def call(request: Any, context: Context) -> Any:
            self._check(request)
            return await behaviour(request, context)

        return call

    def _checked_stream(self, behaviour: Any) -> Any:
        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            self._check(request)
            async with aclosing(behaviour(request, context)) as responses:
                async for response in responses:
                    yield response

        return stream
