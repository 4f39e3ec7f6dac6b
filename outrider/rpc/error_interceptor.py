"""Maps what a handler raises to a status. Unexpected errors are logged, never sent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import structlog
from grpc import aio

from outrider.errors import InternalFailure, OutriderError
from outrider.rpc.status import DETAILS_KEY, clipped, status_code, status_details

log = structlog.get_logger(__name__)

Handler = Callable[[Any, Any], Any]


class ErrorInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Wraps every handler of a server, of all four kinds and both streaming styles."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler, wrapped; None where the method is unknown."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        coders = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            wrapped = _answering(handler.unary_unary, method)
            return grpc.unary_unary_rpc_method_handler(wrapped, **coders)  # type: ignore[arg-type]
        if handler.unary_stream is not None:
            wrapped = _streaming(handler.unary_stream, method)
            return grpc.unary_stream_rpc_method_handler(wrapped, **coders)  # type: ignore[arg-type]
        if handler.stream_unary is not None:
            wrapped = _answering(handler.stream_unary, method)
            return grpc.stream_unary_rpc_method_handler(wrapped, **coders)  # type: ignore[arg-type]
        wrapped = _streaming(handler.stream_stream, method)  # type: ignore[arg-type]
        return grpc.stream_stream_rpc_method_handler(wrapped, **coders)  # type: ignore[arg-type]


def _answering(behaviour: Handler, method: str) -> Handler:
    async def answer(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        try:
            result = behaviour(request, context)
            return await result if inspect.isawaitable(result) else result
        except BaseException as error:
            await _end(context, error, method)

    return answer


def _streaming(behaviour: Handler, method: str) -> Handler:
    if inspect.isasyncgenfunction(behaviour):

        async def stream(
            request: Any, context: aio.ServicerContext[Any, Any]
        ) -> AsyncIterator[Any]:
            responses = behaviour(request, context)
            try:
                async for response in responses:
                    yield response
            except GeneratorExit:
                raise
            except BaseException as error:
                await _end(context, error, method)
            finally:
                await responses.aclose()

        return stream
    return _answering(behaviour, method)


async def _end(
    context: aio.ServicerContext[Any, Any], error: BaseException, method: str
) -> NoReturn:
    """Ends the call with the status of `error`."""
    if isinstance(error, aio.AbortError):
        raise error
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling() or context.cancelled():
            raise error
        # The handler raised it of its own accord: without a status its caller would wait forever.
        error = InternalFailure("the call was cancelled inside the service")
    elif not isinstance(error, OutriderError):
        if not isinstance(error, Exception):
            raise error
        log.error("unexpected error in a call", method=method, exc_info=error)
        error = InternalFailure("internal error; the server's log has the cause")
    await context.abort(
        status_code(error),
        clipped(error.message),
        trailing_metadata=((DETAILS_KEY, status_details(error)),),
    )
