"""TLS and client certificates between a real server and a real channel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener
from outrider.rpc.tls import TlsFiles

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command")


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            "req", "-x509", *_new_key(self._key), "-subj", f"/CN={name}", "-days", "2",
            "-out", self.certificate,
        )  # fmt: skip

    def issue(self, name: str) -> TlsFiles:
        """A certificate and its key; the authority is this one."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, extensions = self.folder / f"{name}.pem", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", *_new_key(key), "-subj", f"/CN={name}", "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
            "-set_serial", "2", "-days", "2", "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        return TlsFiles(certificate, key, self.certificate)


def _new_key(path: Path) -> list[object]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]


def _openssl(*arguments: object) -> None:
    command = [str(OPENSSL), *(str(argument) for argument in arguments)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours") / "ca", "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs") / "ca", "theirs")


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def reaches(address: str, tls: TlsFiles | None) -> bool:
    """Whether a call through such a channel is answered."""
    async with open_channel(address, tls) as channel:
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
