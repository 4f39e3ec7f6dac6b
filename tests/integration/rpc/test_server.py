"""Health, reflection, listening, limits and draining of a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener, ListenError, RpcServer
from outrider.rpc.status import remote_error
from tests.certificates import Authority, needs_openssl

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def health_of(channel: aio.Channel, name: str) -> int:
    request = health_pb2.HealthCheckRequest(service=name)
    return (await health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)).status


@pytest.mark.parametrize("name", ["", "test.Bytes"])
async def test_health_is_not_serving_until_told(serve: Any, name: str) -> None:
    served = await serve()
    assert await health_of(served.channel, name) == NOT_SERVING
    await served.server.set_serving()
    assert await health_of(served.channel, name) == SERVING
    await served.server.set_not_serving()
    assert await health_of(served.channel, name) == NOT_SERVING


async def test_health_of_an_unknown_service_is_not_found(serve: Any) -> None:
    served = await serve()
    with pytest.raises(aio.AioRpcError) as caught:
        await health_of(served.channel, "test.Other")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_watcher_sees_changes_and_does_not_hold_up_a_drain(serve: Any) -> None:
    served = await serve()
    watch = health_pb2_grpc.HealthStub(served.channel).Watch(
        health_pb2.HealthCheckRequest(service="test.Bytes")
    )
    assert (await watch.read()).status == NOT_SERVING
    await served.server.set_serving()
    assert (await watch.read()).status == SERVING
    async with asyncio.timeout(60):
        draining = asyncio.create_task(served.server.drain(60))
        assert (await watch.read()).status == NOT_SERVING
        await draining


@pytest.mark.slow
async def test_calls_wait_more_than_half_a_minute_to_be_taken_up(serve: Any) -> None:
    """By its own default gRPC cancels them then, as if their callers had."""

    async def busy(request: bytes, context: Any) -> bytes:
        time.sleep(0.18)  # noqa: ASYNC251 - nobody else of this process gets a turn
        return request

    served = await serve(UnaryUnary=busy)
    messages = [str(number).encode() for number in range(200)]
    calls = [served.call("UnaryUnary", message, timeout=200) for message in messages]
    assert await asyncio.gather(*calls) == [[message] for message in messages]


async def test_reflection_lists_the_services(serve: Any) -> None:
    served = await serve()
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    async for answer in stub.ServerReflectionInfo(iter([request])):
        names = {service.name for service in answer.list_services_response.service}
    assert names == {
        "test.Bytes",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


async def test_a_port_in_use_is_refused(serve: Any) -> None:
    served = await serve()
    with pytest.raises(ListenError, match=served.server.address):
        await serve(Listener(served.server.address))


@pytest.mark.parametrize("kind", ["UnaryUnary", "UnaryStream"])
async def test_a_large_request_is_refused_by_name(serve: Any, kind: str) -> None:
    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield request

    listener = Listener("127.0.0.1:0", max_receive_bytes=1000)
    served = await serve(listener, UnaryUnary=echo, UnaryStream=stream)
    remote = remote_error(await served.failure(kind, b"x" * 1001))
    assert remote.code is grpc.StatusCode.INVALID_ARGUMENT
    assert remote.metadata == {"field": "request", "allowed": "at most 1000 bytes"}
    far = remote_error(await served.failure(kind, b"x" * 1_000_000))
    assert far.metadata == remote.metadata
    assert await served.call(kind, b"x" * 1000) == [b"x" * 1000]


async def test_messages_beyond_the_default_four_megabytes_pass(serve: Any) -> None:
    served = await serve(UnaryUnary=echo)
    large = b"x" * (20 << 20)
    assert await served.call("UnaryUnary", large) == [large]


async def test_a_burst_of_streams_is_served(serve: Any) -> None:
    async def repeat(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    served = await serve(StreamStream=repeat)
    answers = await asyncio.gather(*(served.call("StreamStream") for _ in range(1500)))
    assert answers == [[b"x"]] * 1500


@pytest.mark.parametrize("ending", ["return", "abort"])
async def test_an_open_stream_finishes_while_the_server_drains(serve: Any, ending: str) -> None:
    drained = asyncio.Event()

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"before"
        await drained.wait()
        yield b"after"
        if ending == "abort":
            await context.abort(grpc.StatusCode.DATA_LOSS, "mine")

    served = await serve(UnaryStream=stream, UnaryUnary=echo)
    await served.server.set_serving()
    call = served.channel.unary_stream("/test.Bytes/UnaryStream")(b"x")
    assert await call.read() == b"before"
    draining = asyncio.create_task(served.server.drain(60))
    async with asyncio.timeout(60):
        await _until_refused(served)
    drained.set()
    assert await call.read() == b"after"
    code = grpc.StatusCode.DATA_LOSS if ending == "abort" else grpc.StatusCode.OK
    assert await call.code() is code
    await draining


async def test_a_stream_that_outlives_the_grace_is_ended(serve: Any) -> None:
    cleaned = asyncio.Event()

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"before"
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    served = await serve(UnaryStream=stream)
    call = served.channel.unary_stream("/test.Bytes/UnaryStream")(b"x")
    assert await call.read() == b"before"
    async with asyncio.timeout(60):
        await served.server.drain(0.1)
        await cleaned.wait()
        assert await call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


async def test_a_channel_finds_a_server_that_starts_later_or_anew(serve: Any) -> None:
    async def start(address: str) -> RpcServer:
        server = RpcServer(Listener(address), service_names=["test.Bytes"])
        await server.start()
        return server

    first = await start("127.0.0.1:0")
    channel = open_channel(first.address)
    assert await health_of(channel, "") == NOT_SERVING
    await first.drain(0)
    with pytest.raises(aio.AioRpcError) as caught:
        await health_of(channel, "")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    second = await start(first.address)
    check = health_pb2_grpc.HealthStub(channel).Check
    await check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)
    await channel.close()
    await second.drain(0)


async def _until_refused(served: Any) -> None:
    """Returns once new calls are turned away."""
    while True:
        async with open_channel(served.server.address) as channel:
            try:
                await health_of(channel, "")
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE
                return
        await asyncio.sleep(0.01)


@needs_openssl
async def test_health_has_a_port_of_its_own_in_the_clear(serve: Any, tmp_path: Path) -> None:
    files = Authority(tmp_path / "ca", "ours").issue("server")
    listener = Listener("127.0.0.1:0", files, health_address="127.0.0.1:0")
    served = await serve(listener, UnaryUnary=echo)
    server = served.server
    async with open_channel(f"127.0.0.1:{server.health_port}") as probe:
        for name in ("", "test.Bytes"):
            assert await health_of(probe, name) == NOT_SERVING
        await server.set_serving()
        assert await health_of(probe, "test.Bytes") == SERVING
        with pytest.raises(aio.AioRpcError) as caught:
            await probe.unary_unary("/test.Bytes/UnaryUnary")(b"x", timeout=10)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        watch = health_pb2_grpc.HealthStub(probe).Watch(
            health_pb2.HealthCheckRequest(service="test.Bytes")
        )
        assert (await watch.read()).status == SERVING
        async with asyncio.timeout(60):
            draining = asyncio.create_task(server.drain(60))
            assert (await watch.read()).status == NOT_SERVING
            await draining


async def test_probes_are_answered_while_open_streams_finish(serve: Any) -> None:
    finish = asyncio.Event()

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"before"
        await finish.wait()

    listener = Listener("127.0.0.1:0", health_address="127.0.0.1:0")
    served = await serve(listener, UnaryStream=stream)
    call = served.channel.unary_stream("/test.Bytes/UnaryStream")(b"x")
    assert await call.read() == b"before"
    draining = asyncio.create_task(served.server.drain(60))
    async with asyncio.timeout(60):
        await _until_refused(served)
        async with open_channel(f"127.0.0.1:{served.server.health_port}") as probe:
            assert await health_of(probe, "") == NOT_SERVING
        finish.set()
        await draining


async def test_a_health_port_in_use_is_refused(serve: Any) -> None:
    served = await serve()
    with pytest.raises(ListenError, match=served.server.address):
        await serve(Listener("127.0.0.1:0", health_address=served.server.address))
