"""Callers are admitted by the names in the certificates that they show."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc import aio

from outrider.rpc.access import current_caller
from outrider.rpc.allowed_callers import AllowedCallers
from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener
from outrider.rpc.status import remote_error
from outrider.rpc.tls import TlsFiles
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl

SPIFFE = "spiffe://cluster/ns/outrider/sa/coordinator"
ALLOWED = AllowedCallers(["coordinator.outrider", SPIFFE])


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours") / "ca", "ours")


async def tell(request: bytes, context: Any) -> bytes:
    return current_caller().name.encode()


async def outcome(address: str, tls: TlsFiles | None) -> str:
    """The name a caller is known by, or the code it is refused with."""
    async with open_channel(address, tls) as channel:
        try:
            answer = await channel.unary_unary("/test.Bytes/UnaryUnary")(b"x", timeout=10)
        except aio.AioRpcError as error:
            return remote_error(error).code.name
    return bytes(answer).decode()


@pytest.mark.parametrize(
    ("alternatives", "expected"),
    [
        ("DNS:coordinator.outrider", "coordinator.outrider"),
        (f"URI:{SPIFFE}", SPIFFE),
        ("DNS:other,DNS:coordinator.outrider", "coordinator.outrider"),
        ("DNS:draft.outrider", "PERMISSION_DENIED"),
        ("DNS:*.outrider", "PERMISSION_DENIED"),
        ("DNS:coordinator.outrider.evil", "PERMISSION_DENIED"),
        ("DNS:COORDINATOR.OUTRIDER", "PERMISSION_DENIED"),
        (f"URI:{SPIFFE}/other", "PERMISSION_DENIED"),
        ("email:coordinator.outrider", "PERMISSION_DENIED"),
        ("IP:127.0.0.1", "PERMISSION_DENIED"),
        ("", "PERMISSION_DENIED"),
    ],
)
async def test_a_caller_is_known_by_an_alternative_name(
    serve: Any, ours: Authority, alternatives: str, expected: str
) -> None:
    listener = Listener("127.0.0.1:0", ours.issue("server"), access=ALLOWED)
    address = (await serve(listener, UnaryUnary=tell)).server.address
    # The common name says nothing.
    files = ours.issue("coordinator.outrider", alternatives=alternatives)
    assert await outcome(address, files) == expected


async def test_any_certificate_may_be_enough(serve: Any, ours: Authority) -> None:
    listener = Listener("127.0.0.1:0", ours.issue("server"), access=AllowedCallers("*"))
    address = (await serve(listener, UnaryUnary=tell)).server.address
    assert await outcome(address, ours.issue("a", alternatives="DNS:a")) == "a"
    assert await outcome(address, ours.issue("nameless", alternatives="")) == "127.0.0.1"
    assert await outcome(address, TlsFiles(authority=ours.certificate)) == "UNAVAILABLE"


async def test_certificates_of_others_are_refused_in_the_handshake(
    serve: Any, ours: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    listener = Listener("127.0.0.1:0", ours.issue("server"), access=ALLOWED)
    address = (await serve(listener, UnaryUnary=tell)).server.address
    theirs = Authority(tmp_path_factory.mktemp("theirs") / "ca", "ours")
    name = "DNS:coordinator.outrider"
    forged = theirs.issue("coordinator.outrider", alternatives=name)
    ended = ours.issue("ended", alternatives=name, days=-1)
    for files in (TlsFiles(forged.certificate, forged.key, ours.certificate), ended):
        assert await outcome(address, files) == grpc.StatusCode.UNAVAILABLE.name


async def test_without_certificates_nobody_is_admitted(serve: Any) -> None:
    """A listener that was given names but no authority lets nobody in."""
    for names in (["coordinator.outrider"], ["*"]):
        listener = Listener("127.0.0.1:0", access=AllowedCallers(names))
        address = (await serve(listener, UnaryUnary=tell)).server.address
        assert await outcome(address, None) == "UNAUTHENTICATED"
