"""Certificates and authorities that are replaced while a server and its callers run."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc import aio

from outrider.rpc import watched_files
from outrider.rpc.channel import Channels
from outrider.rpc.server import Listener
from outrider.rpc.tls import TlsFiles
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_files, "LOOK_INTERVAL_S", 0.0)


@pytest.fixture
def old(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "old", "old")


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "new", "new")


def installed(files: TlsFiles, folder: Path) -> TlsFiles:
    """The same files under fixed names, as a volume shows them; replaced at once each."""
    folder.mkdir(exist_ok=True)
    places = []
    for name, path in (("cert", files.certificate), ("key", files.key), ("ca", files.authority)):
        assert path is not None
        shutil.copy(path, folder / f".{name}")
        places.append((folder / f".{name}").rename(folder / f"{name}.pem"))
    return TlsFiles(*places)


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def answers(channels: Channels, address: str) -> bool:
    """Whether a call on a new channel is answered."""
    channel = channels.open(address)
    try:
        return await channel.unary_unary("/test.Bytes/UnaryUnary")(b"x", timeout=10) == b"x"
    except aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        return False
    finally:
        await channel.close()


async def test_a_new_certificate_and_a_new_authority_are_taken_up(
    serve: Any, tmp_path: Path, old: Authority, new: Authority
) -> None:
    files = installed(old.issue("server"), tmp_path / "server")
    address = (await serve(Listener("127.0.0.1:0", files), UnaryUnary=echo)).server.address
    of_old, of_new = Channels(old.issue("client")), Channels(new.issue("client"))
    assert await answers(of_old, address)
    assert not await answers(of_new, address)
    installed(new.issue("server"), tmp_path / "server")
    assert await answers(of_new, address)
    assert not await answers(of_old, address)


async def test_calls_go_on_while_certificates_are_replaced(
    serve: Any, tmp_path: Path, old: Authority
) -> None:
    files = installed(old.issue("server"), tmp_path / "server")
    address = (await serve(Listener("127.0.0.1:0", files), UnaryUnary=echo)).server.address
    channels = Channels(old.issue("client"))
    held = channels.open(address)
    over = asyncio.Event()

    async def keep_calling() -> int:
        count = 0
        while not over.is_set():
            await held.unary_unary("/test.Bytes/UnaryUnary")(b"x", timeout=10)
            assert await answers(channels, address)
            count += 1
        return count

    callers = [asyncio.create_task(keep_calling()) for _ in range(4)]
    for _ in range(10):
        installed(await asyncio.to_thread(old.issue, "server"), tmp_path / "server")
        await asyncio.sleep(0.02)
    over.set()
    assert min(await asyncio.gather(*callers)) > 3
    await held.close()


@pytest.mark.parametrize("harmed", ["cert.pem", "key.pem", "ca.pem"])
@pytest.mark.parametrize("content", ["", "none", None])
async def test_a_replacement_that_cannot_be_used_changes_nothing(
    serve: Any, tmp_path: Path, old: Authority, harmed: str, content: str | None
) -> None:
    folder = tmp_path / "server"
    files = installed(old.issue("server"), folder)
    address = (await serve(Listener("127.0.0.1:0", files), UnaryUnary=echo)).server.address
    channels = Channels(old.issue("client"))
    assert await answers(channels, address)
    whole = (folder / harmed).read_bytes()
    (folder / harmed).unlink()
    if content is not None:
        (folder / harmed).write_text(content)
    with structlog.testing.capture_logs() as events:
        assert await answers(channels, address)
        assert await answers(channels, address)
    (told,) = [event for event in events if event["log_level"] == "error"]
    assert str(folder / harmed) in told["files"]
    (folder / harmed).write_bytes(whole)
    assert await answers(channels, address)


async def test_channels_take_up_new_certificates(
    serve: Any, tmp_path: Path, old: Authority, new: Authority
) -> None:
    of_new = (await serve(Listener("127.0.0.1:0", new.issue("server")), UnaryUnary=echo)).server
    channels = Channels(installed(old.issue("client"), tmp_path / "client"))
    assert channels.generation == 0
    assert not await answers(channels, of_new.address)
    installed(new.issue("client"), tmp_path / "client")
    assert channels.generation == 1
    assert await answers(channels, of_new.address)
    (tmp_path / "client" / "cert.pem").write_text("none")
    assert channels.generation == 1
    assert await answers(channels, of_new.address)
    installed(new.issue("again"), tmp_path / "client")
    assert channels.generation == 2
    assert await answers(channels, of_new.address)


async def test_channels_without_files_stay_as_they_are() -> None:
    assert Channels().generation == 0
    assert Channels(TlsFiles()).generation == 0
