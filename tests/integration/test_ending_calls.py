"""Ending a stream in order, whatever becomes of its channel meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode, aio

from coordinator.calls import CLOSED_CALL_ERRORS, error_of, finish_call, send
from outrider.rpc.channel import open_channel
from outrider.v1 import target_pb2, target_pb2_grpc

REFUSAL = "no more of these"
MESSAGE = target_pb2.VerifyRequest()


class Endless:
    """Takes what it gets and answers nothing, nor ends."""

    async def Verify(  # noqa: N802
        self, requests: AsyncIterator[target_pb2.VerifyRequest], context: object
    ) -> AsyncIterator[target_pb2.VerifyResponse]:
        async for _ in requests:
            pass
        await asyncio.sleep(60.0)
        yield target_pb2.VerifyResponse()


class Refusing:
    """Takes one message, answers it and refuses the rest."""

    async def Verify(  # noqa: N802
        self,
        requests: AsyncIterator[target_pb2.VerifyRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[target_pb2.VerifyResponse]:
        async for _ in requests:
            break
        yield target_pb2.VerifyResponse()
        await context.abort(StatusCode.OUT_OF_RANGE, REFUSAL)


@asynccontextmanager
async def channel_to(servicer: object) -> AsyncIterator[aio.Channel]:
    server = aio.server()
    target_pb2_grpc.add_TargetServiceServicer_to_server(servicer, server)  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    async with channel_to(Endless()) as channel:
        yield channel


async def opened(channel: aio.Channel) -> aio.StreamStreamCall[Any, Any]:
    call: aio.StreamStreamCall[Any, Any] = target_pb2_grpc.TargetServiceStub(channel).Verify()
    await call.write(target_pb2.VerifyRequest())
    return call


async def test_a_channel_that_is_closed_meanwhile_ends_the_call_and_nothing_else(
    channel: aio.Channel,
) -> None:
    ending = asyncio.create_task(finish_call(await opened(channel), patience_s=200.0))
    await asyncio.sleep(0.05)
    await channel.close()
    async with asyncio.timeout(60):
        await ending


async def test_whoever_ends_a_call_may_be_stopped(channel: aio.Channel) -> None:
    call = await opened(channel)
    ending = asyncio.create_task(finish_call(call, patience_s=5.0))
    await asyncio.sleep(0.05)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert call.done()


async def test_a_peer_that_does_not_end_is_not_waited_for(channel: aio.Channel) -> None:
    call = await opened(channel)
    async with asyncio.timeout(60):
        await finish_call(call, patience_s=0.05)
    assert call.done()


async def test_a_refusal_is_known_however_the_call_was_found_over() -> None:
    """Most of the messages fail while they are being sent, as the peer ends the call."""
    ways = set()
    async with channel_to(Refusing()) as channel:
        for _ in range(100):
            call: aio.StreamStreamCall[Any, Any] = target_pb2_grpc.TargetServiceStub(
                channel
            ).Verify()
            reading = asyncio.create_task(read_to_the_end(call))
            with pytest.raises((aio.AioRpcError, *CLOSED_CALL_ERRORS)) as failure:
                while True:
                    await send(call, MESSAGE)
            ways.add(failure.type)
            ended = await error_of(call)
            assert ended is not None
            for error in (ended, await reading):
                assert (error.code(), error.details()) == (StatusCode.OUT_OF_RANGE, REFUSAL)
    assert any(issubclass(way, aio.InternalError) for way in ways)


async def test_a_message_is_worded_by_the_serializer_of_its_call(channel: aio.Channel) -> None:
    """Whoever made the channel may want to see what is sent."""
    sent: list[bytes] = []

    def keep(message: target_pb2.VerifyRequest) -> bytes:
        sent.append(message.SerializeToString())
        return sent[-1]

    call: aio.StreamStreamCall[Any, Any] = channel.stream_stream(
        "/outrider.v1.TargetService/Verify", request_serializer=keep
    )()
    message = target_pb2.VerifyRequest(round=target_pb2.VerifyRound(number=7))
    await send(call, message)
    assert sent == [message.SerializeToString()]
    call.cancel()


async def read_to_the_end(call: aio.StreamStreamCall[Any, Any]) -> aio.AioRpcError:
    with pytest.raises(aio.AioRpcError) as failure:
        while await call.read() is not aio.EOF:
            pass
    return failure.value
