"""Messages are bounded before they are parsed, and parsed before a handler has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError

from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener, RpcServer
from outrider.rpc.status import remote_error
from tests.integration.rpc.conftest import KINDS, SERVICE, Served

LIMIT = 1000
GARBAGE = b"garbage"
STYLES = ("UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream")


class Parser:
    """Takes every message but garbage; remembers the longest it was given."""

    def __init__(self) -> None:
        self.longest = 0

    def __call__(self, raw: bytes) -> bytes:
        self.longest = max(self.longest, len(raw))
        if raw == GARBAGE:
            raise DecodeError("no message")
        return raw


async def unary(request: Any, context: Any) -> bytes:
    if isinstance(request, bytes):
        return request
    return b"".join([message async for message in request])


async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
    if isinstance(request, bytes):
        yield request
        return
    async for message in request:
        yield message


@pytest.fixture
async def parser() -> Parser:
    return Parser()


@pytest.fixture
async def served(parser: Parser) -> AsyncIterator[Served]:
    server = RpcServer(Listener("127.0.0.1:0", max_receive_bytes=LIMIT), service_names=[SERVICE])
    handlers = {
        kind: KINDS[kind](
            stream if kind.endswith("Stream") else unary,
            request_deserializer=parser,
            response_serializer=bytes,
        )
        for kind in STYLES
    }
    server.grpc_server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, handlers),)
    )
    await server.start()
    channel = open_channel(server.address)
    yield Served(server, channel)
    await channel.close()
    await server.drain(0)


@pytest.mark.parametrize("kind", STYLES)
async def test_a_message_that_is_too_large_is_named_and_never_parsed(
    served: Served, parser: Parser, kind: str
) -> None:
    assert await served.call(kind, b"x" * LIMIT) == [b"x" * LIMIT]
    for size in (LIMIT + 1, 4 << 20):
        refusal = remote_error(await served.failure(kind, b"x" * size))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.metadata == {"field": "request", "allowed": f"at most {LIMIT} bytes"}
    far = await served.failure(kind, b"x" * (8 << 20))
    assert far.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert parser.longest == LIMIT
    assert await served.call(kind, b"x") == [b"x"]


@pytest.mark.parametrize("kind", STYLES)
async def test_a_message_that_is_none_is_the_callers_fault(served: Served, kind: str) -> None:
    refusal = remote_error(await served.failure(kind, GARBAGE))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.metadata["field"] == "request"
    assert await served.call(kind, b"x") == [b"x"]


async def test_a_compressed_message_counts_with_its_full_size(served: Served) -> None:
    call: Any = served.channel.unary_unary(f"/{SERVICE}/UnaryUnary")
    with pytest.raises(grpc.RpcError) as caught:
        await call(b"\0" * (200 << 20 >> 2), compression=grpc.Compression.Gzip, timeout=30)
    assert remote_error(caught.value).code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_later_message_of_a_stream_is_bounded_too(served: Served) -> None:
    call: Any = served.channel.stream_stream(f"/{SERVICE}/StreamStream")()
    await call.write(b"first")
    assert await call.read() == b"first"
    await call.write(b"x" * (LIMIT + 1))
    with pytest.raises(grpc.RpcError) as caught:
        await call.read()
    assert remote_error(caught.value).code is grpc.StatusCode.INVALID_ARGUMENT
