"""Wraps what a gRPC handler does, whatever kind of call it serves."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from grpc import aio

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"
Context: TypeAlias = aio.ServicerContext[Any, Any]
Behaviour: TypeAlias = Callable[[Any, Context], Any]


def wrapped(
    handler: Handler,
    *,
    call: Callable[[Behaviour], Behaviour],
    stream: Callable[[Behaviour], Behaviour],
    deserializer: Callable[[bytes], Any] | None = None,
) -> Handler | None:
    """The same kind of handler: `stream` wraps an async generator, `call` a coroutine.

    `deserializer` takes the place of the handler's own. None for a handler that is neither; these
    services have none.
    """
    if handler.request_streaming and handler.response_streaming:
        behaviour, rebuild = handler.stream_stream, grpc.stream_stream_rpc_method_handler
    elif handler.request_streaming:
        behaviour, rebuild = handler.stream_unary, grpc.stream_unary_rpc_method_handler
    elif handler.response_streaming:
        behaviour, rebuild = handler.unary_stream, grpc.unary_stream_rpc_method_handler
    else:
        behaviour, rebuild = handler.unary_unary, grpc.unary_unary_rpc_method_handler
    if inspect.isasyncgenfunction(behaviour):
        around: Any = stream(behaviour)
    elif inspect.iscoroutinefunction(behaviour):
        around = call(behaviour)
    else:
        return None
    return rebuild(
        around, deserializer or handler.request_deserializer, handler.response_serializer
    )
