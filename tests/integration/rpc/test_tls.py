"""TLS and client certificates between a real server and a real channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from outrider.rpc.channel import Channels, open_channel
from outrider.rpc.server import Listener, ListenError
from outrider.rpc.tls import TlsFiles
from outrider.rpc.watched_files import FilesError
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours") / "ca", "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs") / "ca", "theirs")


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def reaches(address: str, tls: TlsFiles | None, *, server_name: str = "") -> bool:
    """Whether a call through such a channel is answered."""
    async with open_channel(address, tls, server_name=server_name) as channel:
        try:
            return await channel.unary_unary("/test.Bytes/UnaryUnary")(b"x", timeout=10) == b"x"
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False


async def test_a_channel_checks_the_server(serve: Any, ours: Authority, theirs: Authority) -> None:
    files = ours.issue("server")
    plain_callers = TlsFiles(files.certificate, files.key)
    served = await serve(Listener("127.0.0.1:0", plain_callers), UnaryUnary=echo)
    address = served.server.address
    assert await reaches(address, TlsFiles(authority=ours.certificate))
    assert not await reaches(address, TlsFiles(authority=theirs.certificate))
    assert not await reaches(address, None)


async def test_a_server_with_an_authority_checks_its_callers(
    serve: Any, ours: Authority, theirs: Authority
) -> None:
    served = await serve(Listener("127.0.0.1:0", ours.issue("server")), UnaryUnary=echo)
    address = served.server.address
    stranger = theirs.issue("stranger")
    assert await reaches(address, ours.issue("client"))
    assert not await reaches(address, TlsFiles(authority=ours.certificate))
    forged = TlsFiles(stranger.certificate, stranger.key, ours.certificate)
    assert not await reaches(address, forged)


def test_without_files_there_are_no_credentials() -> None:
    assert TlsFiles().server_credentials() is None
    assert TlsFiles().channel_credentials() is None


async def test_a_replica_is_known_by_the_name_of_its_service(serve: Any, ours: Authority) -> None:
    files = ours.issue("named", alternatives="DNS:outrider-target")
    listener = Listener("127.0.0.1:0", TlsFiles(files.certificate, files.key))
    address = (await serve(listener, UnaryUnary=echo)).server.address
    trusting = TlsFiles(authority=ours.certificate)
    assert not await reaches(address, trusting)
    assert await reaches(address, trusting, server_name="outrider-target")
    assert not await reaches(address, trusting, server_name="outrider-draft")


async def test_a_certificate_that_has_ended_is_refused_on_both_sides(
    serve: Any, ours: Authority
) -> None:
    ended = ours.issue("ended", days=-1)
    served = await serve(Listener("127.0.0.1:0", ours.issue("server")), UnaryUnary=echo)
    assert not await reaches(served.server.address, ended)
    late = await serve(Listener("127.0.0.1:0", ended), UnaryUnary=echo)
    assert not await reaches(late.server.address, ours.issue("client"))


def _without_key(files: TlsFiles) -> None:
    assert files.key is not None
    files.key.write_text("none")


def _with_another_key(files: TlsFiles) -> None:
    assert files.key is not None
    assert files.certificate is not None
    other = files.certificate.with_name("client.key")
    files.key.write_bytes(other.read_bytes())


def _without_authority(files: TlsFiles) -> None:
    assert files.authority is not None
    files.authority.write_text("")


def _gone(files: TlsFiles) -> None:
    assert files.certificate is not None
    files.certificate.unlink()


@pytest.mark.parametrize("harm", [_without_key, _with_another_key, _without_authority, _gone])
async def test_files_that_cannot_be_used_are_told_at_the_start(
    serve: Any, tmp_path: Path, harm: Any
) -> None:
    authority = Authority(tmp_path / "ca", "ours")
    authority.issue("client")
    files = authority.issue("server")
    harm(files)
    with pytest.raises(ListenError, match=r"server|ca\.pem") as caught:
        await serve(Listener("127.0.0.1:0", files))
    assert "PRIVATE" not in str(caught.value)
    with pytest.raises(FilesError):
        Channels(files)


async def test_a_key_with_a_password_is_refused_and_not_asked_for(
    serve: Any, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca", "ours")
    files = authority.issue("server")
    authority.lock(files)
    with pytest.raises(ListenError, match="server"):
        await serve(Listener("127.0.0.1:0", files))
