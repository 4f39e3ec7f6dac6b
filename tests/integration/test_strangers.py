"""Every call that reflection lists is refused to strangers, at each service; health is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from coordinator.main import CoordinatorServer
from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.rpc.api_keys import key_line, key_metadata, new_key
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.rpc.tls import TlsFiles
from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    TargetSettings,
    WorkerSettings,
    load_settings,
)
from outrider.v1 import draft_pb2, generation_pb2, model_pb2, target_pb2
from outrider.worker.listener import worker_listener
from outrider.worker.server import WorkerServer
from target_service.kind import target_kind
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl

KEY = new_key()
COORDINATOR = "coordinator.outrider"
HEALTH = "grpc.health.v1.Health"
WORKERS: dict[str, type[WorkerSettings]] = {"target": TargetSettings, "draft": DraftSettings}
ROLES = (*WORKERS, "coordinator")
AT_THE_DOOR = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
OURS = {
    service.full_name
    for file in (generation_pb2, model_pb2, target_pb2, draft_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
}


@dataclass(frozen=True, slots=True)
class Method:
    """One call that a server takes."""

    service: str
    name: str
    client_streaming: bool
    server_streaming: bool

    async def code(
        self, channel: aio.Channel, metadata: tuple[tuple[str, str], ...] = ()
    ) -> grpc.StatusCode:
        """What an empty request ends with; OK as soon as it is answered."""
        request = iter([b""]) if self.client_streaming else b""
        kind = "_".join(
            "stream" if streams else "unary"
            for streams in (self.client_streaming, self.server_streaming)
        )
        make: Any = getattr(channel, kind)
        call = make(f"/{self.service}/{self.name}")(request, metadata=metadata, timeout=10)
        try:
            if self.server_streaming:
                await call.read()
            else:
                await call
        except aio.AioRpcError as error:
            return remote_error(error).code
        finally:
            call.cancel()
        return grpc.StatusCode.OK


@dataclass(frozen=True, slots=True)
class Caller:
    """What somebody shows."""

    tls: TlsFiles
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded:
    """A running service, one who may call it, and some who may not."""

    address: str
    friend: Caller
    strangers: tuple[Caller, ...]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours") / "ca", "ours")


@asynccontextmanager
async def running(role: str, ours: Authority, folder: Path) -> AsyncIterator[Guarded]:
    """One service as its settings make it, without a model."""
    files = ours.issue(role)
    flags = {
        "listen": "127.0.0.1:0",
        "tls_cert": files.certificate,
        "tls_key": files.key,
        "tls_ca": files.authority,
    }
    if role == "coordinator":
        (folder / "keys").write_text(key_line("team", KEY) + "\n")
        more = {"api_keys_file": folder / "keys", "target_address": "127.0.0.1:9"}
        coordinator = CoordinatorServer(load_settings(CoordinatorSettings, flags | more))
        await coordinator.start()
        yield guarded_by_keys(coordinator.rpc.address, ours)
        await coordinator.stop(0)
        return
    settings = load_settings(WORKERS[role], flags | {"allowed_callers": COORDINATOR})
    kind: Any = target_kind(max_draft_length=4) if role == "target" else draft_kind(CandidateCut())
    worker: WorkerServer[Any, Any] = WorkerServer(kind, worker_listener(settings))
    await worker.rpc.start()
    yield guarded_by_names(worker.rpc.address, ours)
    await worker.stop(0)


def guarded_by_keys(address: str, ours: Authority) -> Guarded:
    """A coordinator: a certificate, even that of another coordinator, is no key."""
    anyone = TlsFiles(authority=ours.certificate)
    peer = ours.issue("coordinator", alternatives=f"DNS:{COORDINATOR}")
    return Guarded(
        address,
        Caller(anyone, key_metadata(KEY)),
        (Caller(anyone), Caller(anyone, key_metadata(new_key())), Caller(peer)),
    )


def guarded_by_names(address: str, ours: Authority) -> Guarded:
    """A worker: a key opens nothing, nor does the certificate of another service."""
    other = ours.issue("stranger", alternatives="DNS:draft.outrider,DNS:target.outrider")
    return Guarded(
        address,
        Caller(ours.issue("coordinator", alternatives=f"DNS:{COORDINATOR}")),
        (Caller(other), Caller(other, key_metadata(KEY))),
    )


async def listed(channel: aio.Channel, metadata: tuple[tuple[str, str], ...]) -> list[Method]:
    """Every method of every service that reflection tells of."""
    ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
    request = reflection_pb2.ServerReflectionRequest

    async def answer(question: reflection_pb2.ServerReflectionRequest) -> Any:
        async for told in ask(iter([question]), metadata=metadata, timeout=10):
            return told
        raise AssertionError("no answer")

    services = (await answer(request(list_services=""))).list_services_response.service
    methods = []
    for service in services:
        told = await answer(request(file_containing_symbol=service.name))
        for raw in told.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(raw)
            methods += [
                Method(service.name, method.name, method.client_streaming, method.server_streaming)
                for found in file.service
                if f"{file.package}.{found.name}" == service.name
                for method in found.method
            ]
    return methods


@pytest.mark.parametrize("role", ROLES)
async def test_strangers_are_refused_every_call(role: str, ours: Authority, tmp_path: Path) -> None:
    async with running(role, ours, tmp_path) as guarded:
        friend = guarded.friend
        async with open_channel(guarded.address, friend.tls) as channel:
            methods = await listed(channel, friend.metadata)
            for method in methods:
                assert await method.code(channel, friend.metadata) not in AT_THE_DOOR, method
        assert {method.service for method in methods} & OURS
        for stranger in guarded.strangers:
            async with open_channel(guarded.address, stranger.tls) as channel:
                for method in methods:
                    code = await method.code(channel, stranger.metadata)
                    refused = code in AT_THE_DOOR
                    assert refused is (method.service != HEALTH), (method, code)


@pytest.mark.parametrize("role", ["target", "draft"])
async def test_a_worker_speaks_to_nobody_without_a_certificate(
    role: str, ours: Authority, tmp_path: Path
) -> None:
    async with running(role, ours, tmp_path) as guarded:
        for tls in (TlsFiles(authority=ours.certificate), None):
            async with open_channel(guarded.address, tls) as channel:
                health = Method(HEALTH, "Check", client_streaming=False, server_streaming=False)
                assert await health.code(channel) is grpc.StatusCode.UNAVAILABLE


async def test_every_service_of_the_contract_is_listed_somewhere(
    ours: Authority, tmp_path: Path
) -> None:
    found: set[str] = set()
    for role in ROLES:
        async with (
            running(role, ours, tmp_path) as guarded,
            open_channel(guarded.address, guarded.friend.tls) as channel,
        ):
            methods = await listed(channel, guarded.friend.metadata)
            found |= {method.service for method in methods}
    assert found >= OURS
