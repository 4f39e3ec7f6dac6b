"""Turns whatever a handler raises into the status its caller gets.

All four kinds of calls, and of the streaming ones both styles: async generators and coroutines
that call `context.write`. A handler that is no coroutine is left alone; these services have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, NoReturn

import grpc
import structlog
from grpc import aio

from outrider.errors import InternalFailure, OutriderError
from outrider.rpc.handlers import Behaviour, Context, Continuation, Handler, wrapped
from outrider.rpc.open_calls import OpenCalls
from outrider.rpc.status import abort

log = structlog.get_logger(__name__)


class ErrorInterceptor(aio.ServerInterceptor):
    """OutriderError → its status; unknown exceptions → log and INTERNAL without their text.

    A call counts as open until its handler has ended.
    """

    def __init__(self, open_calls: OpenCalls) -> None:
        self._open_calls = open_calls

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        method, open_calls = handler_call_details.method, self._open_calls
        around = wrapped(
            handler,
            call=lambda behaviour: _wrap_coroutine(behaviour, method, open_calls),
            stream=lambda behaviour: _wrap_generator(behaviour, method, open_calls),
        )
        return around or handler


def _wrap_coroutine(behaviour: Behaviour, method: str, open_calls: OpenCalls) -> Behaviour:
    async def call(request: Any, context: Context) -> Any:
        try:
            with open_calls:
                return await behaviour(request, context)
        except BaseException as error:
            await _end(error, context, method)

    return call


def _wrap_generator(behaviour: Behaviour, method: str, open_calls: OpenCalls) -> Behaviour:
    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            with open_calls:
                async with aclosing(behaviour(request, context)) as responses:
                    async for response in responses:
                        yield response
        except BaseException as error:
            await _end(error, context, method)

    return stream


async def _end(error: BaseException, context: Context, method: str) -> NoReturn:
    """Ends the call; passes on what is not an answer of the handler's own."""
    if isinstance(error, OutriderError):
        await abort(context, error)
    if isinstance(error, asyncio.CancelledError):
        if _call_is_cancelled():
            raise error
        # Something inside was cancelled, not this call: gRPC would leave the caller waiting.
        log.error("a handler was cancelled from within", method=method)
        await abort(context, InternalFailure("the service gave up its own work"))
    if not isinstance(error, Exception) or isinstance(error, aio.AbortError) or context.done():
        raise error
    log.error("a handler failed", method=method, exc_info=error)
    await abort(context, InternalFailure("internal error; the service's log has its cause"))


def _call_is_cancelled() -> bool:
    """The task that serves the call was asked to stop: by its caller or by the server's end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
