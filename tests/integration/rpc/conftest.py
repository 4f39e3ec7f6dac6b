"""A server of bare byte methods, one for each kind and style of handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener, RpcServer

SERVICE = "test.Bytes"
Behaviour = Callable[[Any, Any], Any]


class Bytes(bytes):
    """A message of one byte string."""

    def ByteSize(self) -> int:  # noqa: N802
        return len(self)


KINDS = {
    "UnaryUnary": grpc.unary_unary_rpc_method_handler,
    "UnaryStream": grpc.unary_stream_rpc_method_handler,
    "StreamUnary": grpc.stream_unary_rpc_method_handler,
    "StreamStream": grpc.stream_stream_rpc_method_handler,
}


@dataclass
class Served:
    """A started server and a channel to it."""

    server: RpcServer
    channel: aio.Channel

    async def call(self, kind: str, message: bytes = b"x", **options: Any) -> list[bytes]:
        """Calls a method; all its answers. Raises AioRpcError."""
        path = f"/{SERVICE}/{kind}"
        if kind == "UnaryUnary":
            return [await self.channel.unary_unary(path)(message, **options)]
        if kind == "StreamUnary":
            return [await self.channel.stream_unary(path)(iter([message]), **options)]
        if kind == "UnaryStream":
            call = self.channel.unary_stream(path)(message, **options)
        else:
            call = self.channel.stream_stream(path)(iter([message]), **options)
        return [answer async for answer in call]

    async def failure(self, kind: str, message: bytes = b"x") -> aio.AioRpcError:
        """The error a call ends with, within ten seconds."""
        with pytest.raises(aio.AioRpcError) as caught:
            await self.call(kind, message, timeout=10)
        assert caught.value.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
        return caught.value


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers whose methods are named by kind; stops them after the test."""
    started: list[Served] = []

    async def start(listener: Listener | None = None, **behaviours: Behaviour) -> Served:
        server = RpcServer(listener or Listener("127.0.0.1:0"), service_names=[SERVICE])
        handlers = {
            kind: KINDS[kind](behaviour, request_deserializer=Bytes, response_serializer=bytes)
            for kind, behaviour in behaviours.items()
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        server.grpc_server.add_generic_rpc_handlers((generic,))
        await server.start()
        served = Served(server, open_channel(server.address))
        started.append(served)
        return served

    yield start
    for served in started:
        await served.channel.close()
        await served.server.drain(0)
