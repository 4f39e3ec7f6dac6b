"""All three services with certificates and keys, as somebody deploys them; and their logs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.rpc.api_keys import key_line, new_key
from outrider.rpc.tls import TlsFiles
from outrider.testing.processes import ServiceProcess
from outrider.testing.tiny_fleet import save_models
from tests.certificates import LOCAL, Authority, needs_openssl

pytestmark = needs_openssl

COORDINATOR = "coordinator.outrider"
PROMPT = "the password of the safe is swordfish-4711"
REFUSED_WITHIN_S = 5.0
TAKEN_UP_S = 4.0


@dataclass
class Deployed:
    """What a client has to know, and what it must not find in a log."""

    folder: Path
    address: str
    public: Authority
    keys_file: Path
    key: str
    services: list[ServiceProcess]
    health_ports: list[int]

    def outrider(self, *words: str, key: str | None) -> subprocess.CompletedProcess[str]:
        """Runs a client command with a key in its environment."""
        environment = {**os.environ, "OUTRIDER_TLS_CA": str(self.public.certificate)}
        if key is not None:
            environment["OUTRIDER_API_KEY"] = key
        return subprocess.run(
            [sys.executable, "-m", "outrider", *words, "--address", self.address],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def given(files: TlsFiles) -> dict[str, str]:
    return {
        "tls_cert": str(files.certificate),
        "tls_key": str(files.key),
        "tls_ca": str(files.authority),
    }


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("deployed")
    target_model, draft_model = save_models(folder)
    inner, public = Authority(folder / "inner", "inner"), Authority(folder / "public", "public")
    key = new_key()
    keys_file = folder / "keys"
    keys_file.write_text(key_line("team-a", key) + "\n")
    logging = {"log_level": "debug", "log_format": "json"}
    with ExitStack() as stack:
        services: list[ServiceProcess] = []
        ports: list[int] = []

        def start(name: str, settings: dict[str, str]) -> ServiceProcess:
            ports.append(free_port())
            health = {"health_listen": f"127.0.0.1:{ports[-1]}"}
            service = ServiceProcess(name, folder, {**logging, **health, **settings})
            stack.callback(service.stop)
            service.start()
            services.append(service)
            return service

        worker = {"dtype": "float32", "threads": "1", "allowed_callers": COORDINATOR}
        target = start(
            "target", {"model": str(target_model), **worker, **given(inner.issue("target"))}
        )
        draft = start("draft", {"model": str(draft_model), **worker, **given(inner.issue("draft"))})
        edge = public.issue("edge")
        own = inner.issue("coordinator", alternatives=f"{LOCAL},DNS:{COORDINATOR}")
        coordinator = start(
            "coordinator",
            {
                "target_address": target.address,
                "draft_address": draft.address,
                "speculation": "on",
                "draft_length": "4",
                "public_tls_cert": str(edge.certificate),
                "public_tls_key": str(edge.key),
                "api_keys_file": str(keys_file),
                **given(own),
            },
        )
        yield Deployed(folder, coordinator.address, public, keys_file, key, services, ports)


def generate(deployed: Deployed, key: str | None) -> subprocess.CompletedProcess[str]:
    words = ("generate", PROMPT, "--raw", "--max-new-tokens", "24", "--temperature", "0", "--json")
    return deployed.outrider(*words, key=key)


def test_a_client_with_a_key_is_answered_with_the_help_of_the_draft(deployed: Deployed) -> None:
    deadline = time.monotonic() + 60
    while True:
        done = generate(deployed, deployed.key)
        assert done.returncode == 0, done.stderr
        if re.search(r'"accepted_tokens": "?[1-9]', done.stdout):
            break
        assert time.monotonic() < deadline, done.stdout
    status = deployed.outrider("status", key=deployed.key)
    assert status.returncode == 0, status.stderr
    assert status.stdout.count("serving") == 2


@pytest.mark.parametrize("key", [None, "", "or-none", "or-" + "x" * 43])
def test_a_client_without_a_key_is_not(deployed: Deployed, key: str | None) -> None:
    for done in (generate(deployed, key), deployed.outrider("status", key=key)):
        assert done.returncode == 1
        assert "UNAUTHENTICATED" in done.stderr
        assert not done.stdout
        assert not key or key not in done.stderr


def test_a_client_that_does_not_know_the_authority_sends_nothing(deployed: Deployed) -> None:
    stranger = Authority(deployed.folder / "stranger", "public")
    trusting = Deployed(
        deployed.folder, deployed.address, stranger, deployed.keys_file, deployed.key, [], []
    )
    assert generate(trusting, deployed.key).returncode == 1


def test_probes_need_no_certificate(deployed: Deployed) -> None:
    for port in deployed.health_ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=10
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_keys_and_certificates_are_replaced_without_a_restart(deployed: Deployed) -> None:
    newer = new_key()
    lines = (key_line("team-a", newer), key_line("team-b", new_key()))
    deployed.keys_file.write_text("\n".join(lines) + "\n")
    shutil.copy(deployed.public.certificate, deployed.folder / "before.pem")
    deployed.public.issue("edge")
    deadline = time.monotonic() + REFUSED_WITHIN_S + 20
    while generate(deployed, deployed.key).returncode == 0:
        assert time.monotonic() < deadline
    assert generate(deployed, newer).returncode == 0
    deployed.keys_file.write_text("not a line of this file\n")
    time.sleep(1.5)
    assert generate(deployed, newer).returncode == 0
    deployed.keys_file.write_text(f"{key_line('team-a', deployed.key)}\n{lines[0]}\n")
    while generate(deployed, deployed.key).returncode:
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_the_authority_is_replaced_while_generations_run(deployed: Deployed) -> None:
    """The three steps of docs/security.md, without a restart and without a failed request."""
    inner, newer = deployed.folder / "inner", Authority(deployed.folder / "newer", "newer")
    [before] = keep(inner, deployed.folder / "before", "coordinator")
    failed: list[str] = []
    over = threading.Event()

    def keep_asking() -> None:
        while not over.is_set():
            done = generate(deployed, deployed.key)
            if done.returncode:
                failed.append(done.stderr)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    replace(inner / "ca.pem", (inner / "ca.pem").read_text() + newer.certificate.read_text())
    time.sleep(TAKEN_UP_S)
    names = {"target": LOCAL, "draft": LOCAL, "coordinator": f"{LOCAL},DNS:{COORDINATOR}"}
    for role, alternatives in names.items():
        files = newer.issue(role, alternatives=alternatives)
        for path in (files.key, files.certificate):
            assert path is not None
            replace(inner / path.name, path.read_text())
    time.sleep(TAKEN_UP_S)
    replace(inner / "ca.pem", newer.certificate.read_text())
    time.sleep(TAKEN_UP_S)
    over.set()
    asking.join()
    assert failed == []
    done = generate(deployed, deployed.key)
    assert done.returncode == 0, done.stderr
    target = deployed.services[0]
    assert not opens(target.address, TlsFiles(before.certificate, before.key, inner / "ca.pem"))
    now = TlsFiles(inner / "coordinator.pem", inner / "coordinator.key", inner / "ca.pem")
    assert opens(target.address, now)


def keep(folder: Path, into: Path, *names: str) -> list[TlsFiles]:
    """Copies of certificates and keys as they are."""
    into.mkdir()
    kept = []
    for name in names:
        pair = [Path(shutil.copy(folder / f"{name}{end}", into)) for end in (".pem", ".key")]
        kept.append(TlsFiles(*pair))
    return kept


def replace(path: Path, content: str) -> None:
    """At once, as volumes do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(content)
    fresh.rename(path)


def opens(address: str, files: TlsFiles) -> bool:
    """Whether health is answered to who shows these."""
    credentials = files.channel_credentials()
    assert credentials is not None
    with grpc.secure_channel(address, credentials) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        except grpc.RpcError:
            return False
        return True


def test_logs_hold_no_secret_and_no_text(deployed: Deployed) -> None:
    """After all that was done above, refusals and broken files included."""
    answer = generate(deployed, deployed.key)
    secrets = {deployed.key, PROMPT, "swordfish", "not a line of this file"}
    secrets |= {line for line in deployed.keys_file.read_text().split("\n") if line}
    secrets |= {line.partition(":")[2] for line in deployed.keys_file.read_text().split()}
    for path in deployed.folder.rglob("*.key"):
        assert "PRIVATE KEY" in path.read_text()
        secrets |= set(path.read_text().split("\n")[1:-2])
    text = re.search(r'"text": "(.{8})', answer.stdout)
    if text:
        secrets.add(text[1])
    logs = "".join(service.log.read_text() for service in deployed.services)
    assert "a call was refused" in logs
    assert "cannot be used" in logs
    for secret in secrets - {""}:
        assert secret not in logs
