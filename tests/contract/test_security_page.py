"""docs/security.md works as it is written: its commands, its flags and its names."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc import aio

from outrider.rpc.access import current_caller
from outrider.rpc.channel import Channels
from outrider.rpc.server import RpcServer
from outrider.rpc.status import remote_error
from outrider.rpc.tls import TlsFiles
from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    ServiceSettings,
    TargetSettings,
    WorkerSettings,
    all_environment_names,
    load_settings,
)
from outrider.worker.listener import worker_listener
from tests.certificates import needs_openssl

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
SETTINGS: dict[str, type[ServiceSettings]] = {
    "target": TargetSettings,
    "draft": DraftSettings,
    "coordinator": CoordinatorSettings,
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def served(role: str) -> dict[str, str]:
    """The flags of the page's `outrider serve ROLE`, by field."""
    [command] = [
        line
        for block in blocks("sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith(f"outrider serve {role} ")
    ]
    words = shlex.split(command)[3:]
    return {
        flag.removeprefix("--").replace("-", "_"): value
        for flag, value in zip(words[::2], words[1::2], strict=True)
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's commands were run."""
    for name in all_environment_names():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    commands = next(block for block in blocks("sh") if "openssl" in block)
    subprocess.run(["bash", "-euc", commands], check=True, capture_output=True)
    for name in ("edge.pem", "edge.key"):
        (tmp_path / name).write_bytes((tmp_path / f"coordinator{name[4:]}").read_bytes())
    (tmp_path / "keys").write_text(f"team-a:{'0' * 64}\n")
    return tmp_path


@needs_openssl
@pytest.mark.parametrize("role", SETTINGS)
def test_the_commands_have_valid_settings(folder: Path, role: str) -> None:
    settings = load_settings(SETTINGS[role], served(role))
    assert settings.listen.startswith("0.0.0.0:")
    assert not settings.insecure


@needs_openssl
@pytest.mark.parametrize("role", ["target", "draft"])
async def test_the_certificates_let_the_coordinator_in_and_no_other(
    folder: Path, role: str
) -> None:
    async def tell(request: bytes, context: Any) -> bytes:
        return current_caller().name.encode()

    settings = load_settings(SETTINGS[role], served(role) | {"listen": "127.0.0.1:0"})
    assert isinstance(settings, WorkerSettings)
    server = RpcServer(worker_listener(settings), service_names=["test.Names"])
    handlers = {"Tell": grpc.unary_unary_rpc_method_handler(tell)}
    server.grpc_server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Names", handlers),)
    )
    await server.start()
    outcomes = []
    for name in ("coordinator", "draft", "target"):
        files = TlsFiles(Path(f"{name}.pem"), Path(f"{name}.key"), Path("ca.pem"))
        channel = Channels(files).open(server.address, server_name=f"outrider-{role}")
        call: Any = channel.unary_unary("/test.Names/Tell")
        try:
            outcomes.append((await call(b"", timeout=10)).decode())
        except aio.AioRpcError as error:
            outcomes.append(remote_error(error).code.name)
        await channel.close()
    await server.drain(0)
    assert outcomes == ["outrider-coordinator", "PERMISSION_DENIED", "PERMISSION_DENIED"]


def test_every_setting_that_is_named_exists() -> None:
    known = {name.removeprefix("OUTRIDER_") for name in all_environment_names()}
    named = set(re.findall(r"`(?:OUTRIDER_)?([A-Z][A-Z_]{3,})(?:=[^`]*)?`", PAGE))
    statuses = {"COUPLED", "REJECTION", "UNAVAILABLE", "UNAUTHENTICATED"}
    assert "ALLOWED_CALLERS" in named
    assert named - statuses <= known


def test_the_manifest_names_what_a_worker_allows() -> None:
    [manifest] = blocks("yaml")
    spec = yaml.safe_load(manifest)["spec"]
    assert served("target")["allowed_callers"] in spec["dnsNames"]
    assert {"server auth", "client auth"} <= set(spec["usages"])


def test_files_that_are_named_exist() -> None:
    root = Path(__file__).parents[2]
    for path in re.findall(r"`(tests/[^`]+|docs/[^`]+)`", PAGE):
        assert (root / path).is_file(), path
