"""Who may call: asked before every handler, whatever its kind and style."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from outrider.errors import NotAllowed, Unauthenticated
from outrider.rpc.access import NOBODY, Caller, current_caller
from outrider.rpc.server import Listener
from outrider.rpc.status import remote_error


class ByName:
    """Admits callers by the name they claim; for tests alone."""

    def admit(self, context: Any) -> Caller:
        name = dict(context.invocation_metadata()).get("name")
        if name is None:
            raise Unauthenticated("a name is needed")
        if name == "stranger":
            raise NotAllowed("strangers are not")
        return Caller(name=str(name), tenant=f"tenant of {name}")


GUARDED = Listener("127.0.0.1:0", access=ByName())


async def tell(request: Any, context: Any) -> bytes:
    return current_caller().name.encode()


async def tell_later(request: Any, context: Any) -> AsyncIterator[bytes]:
    for _ in range(2):
        await asyncio.sleep(0.01)
        yield current_caller().tenant.encode()
    yield await asyncio.create_task(tell(request, context))


async def write(request: Any, context: Any) -> None:
    await context.write(current_caller().name.encode())


EVERY_STYLE: list[tuple[str, Any]] = [
    ("UnaryUnary", tell),
    ("UnaryStream", tell_later),
    ("UnaryStream", write),
    ("StreamUnary", tell),
    ("StreamStream", tell_later),
    ("StreamStream", write),
]


@pytest.mark.parametrize(("kind", "behaviour"), EVERY_STYLE)
async def test_a_refused_caller_reaches_no_handler(serve: Any, kind: str, behaviour: Any) -> None:
    reached: list[str] = []

    async def call(request: Any, context: Any) -> Any:
        reached.append(kind)

    async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
        reached.append(kind)
        yield b""

    served = await serve(GUARDED, **{kind: stream if behaviour is tell_later else call})
    nameless = remote_error(await served.failure(kind))
    assert (nameless.code, nameless.reason) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
    )
    with pytest.raises(grpc.RpcError) as caught:
        await served.call(kind, metadata=(("name", "stranger"),), timeout=10)
    assert remote_error(caught.value).code is grpc.StatusCode.PERMISSION_DENIED
    assert reached == []


@pytest.mark.parametrize(("kind", "behaviour"), EVERY_STYLE)
async def test_a_handler_knows_its_caller(serve: Any, kind: str, behaviour: Any) -> None:
    served = await serve(GUARDED, **{kind: behaviour})
    names = [f"caller {number}" for number in range(50)]
    answers = await asyncio.gather(
        *(served.call(kind, metadata=(("name", name),), timeout=10) for name in names)
    )
    for name, answer in zip(names, answers, strict=True):
        own, tenant = name.encode(), f"tenant of {name}".encode()
        assert answer == ([tenant, tenant, own] if behaviour is tell_later else [own])
    assert current_caller() is NOBODY


async def test_health_is_for_everyone_and_reflection_is_not(serve: Any) -> None:
    served = await serve(GUARDED)
    health = health_pb2_grpc.HealthStub(served.channel)
    assert await health.Check(health_pb2.HealthCheckRequest(), timeout=10)
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert await watch.read()
    watch.cancel()
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    with pytest.raises(grpc.RpcError) as caught:
        await stub.ServerReflectionInfo(iter([request]), timeout=10).read()
    assert remote_error(caught.value).code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_handler_that_cannot_be_guarded_is_refused(serve: Any) -> None:
    def blocking(request: bytes, context: Any) -> bytes:
        return b"reached"

    served = await serve(GUARDED, UnaryUnary=blocking)
    with pytest.raises(grpc.RpcError) as caught:
        await served.call("UnaryUnary", metadata=(("name", "friend"),), timeout=10)
    assert remote_error(caught.value).code is grpc.StatusCode.PERMISSION_DENIED


async def test_without_a_policy_callers_are_told_apart_by_host(serve: Any) -> None:
    served = await serve(Listener("127.0.0.1:0"), UnaryUnary=tell)
    assert await served.call("UnaryUnary") == [b"127.0.0.1"]
    six = await serve(Listener("[::1]:0"), UnaryUnary=tell)
    assert await six.call("UnaryUnary") == [b"::1"]


async def test_refusals_are_logged_without_filling_the_log(serve: Any) -> None:
    served = await serve(GUARDED, UnaryUnary=tell)
    with structlog.testing.capture_logs() as events:
        for _ in range(50):
            await served.failure("UnaryUnary")
    told = [event for event in events if event["event"] == "a call was refused"]
    assert 1 <= len(told) < 25
    assert told[0]["peer"] == "127.0.0.1"
    assert told[0]["method"] == "/test.Bytes/UnaryUnary"
    assert told[0]["reason"] == "UNAUTHENTICATED"
