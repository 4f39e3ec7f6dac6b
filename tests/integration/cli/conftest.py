"""A real GenerationService whose answers a test writes down, and the command as a process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from outrider.v1 import generation_pb2, generation_pb2_grpc, model_pb2


def chunk(offset: int, token_ids: list[int], text: str) -> generation_pb2.GenerateResponse:
    """One event with new output."""
    return generation_pb2.GenerateResponse(
        chunk=generation_pb2.OutputChunk(offset=offset, token_ids=token_ids, text=text)
    )


def summary(text: str = "") -> generation_pb2.GenerateResponse:
    """The last event of a generation of five tokens in three rounds."""
    return generation_pb2.GenerateResponse(
        summary=generation_pb2.GenerationSummary(
            finish_reason=generation_pb2.FINISH_REASON_LENGTH,
            text=text,
            usage=generation_pb2.Usage(prompt_tokens=7, output_tokens=5),
            speculation=generation_pb2.SpeculationStats(
                rounds=3,
                drafted_rounds=2,
                draft_tokens=8,
                accepted_tokens=2,
                accepted_per_position=[1, 1, 0, 0],
                rounds_by_draft_length=[1, 0, 0, 0, 2],
                mean_output_tokens_per_round=5 / 3,
                decode_ms=200.0,
                time_to_first_token_ms=80.0,
                draft_ms=40.0,
                verify_ms=120.0,
                hop_ms=2.0,
                queue_ms=0.5,
            ),
            seed=2**64 - 1,
            reproducible=True,
            model="scripted",
            trace_id="0af7651916cd43dd8448eb211c80319c",
        )
    )


def error_status(
    code: grpc.StatusCode, message: str, reason: str, **metadata: str
) -> tuple[grpc.StatusCode, str, bytes]:
    """A status with the details that the coordinator sends."""
    info = error_details_pb2.ErrorInfo(domain="outrider", reason=reason, metadata=metadata)
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=500_000_000))
    details = [any_pb2.Any(), any_pb2.Any()]
    details[0].Pack(info)
    details[1].Pack(retry)
    known = details[: 1 if code is grpc.StatusCode.INVALID_ARGUMENT else 2]
    status = status_pb2.Status(code=code.value[0], message=message, details=known)
    return code, message, status.SerializeToString()


@dataclass
class Script(generation_pb2_grpc.GenerationServiceServicer):
    """Answers with `events`, `pause_s` before each; then fails with `error`, from the request
    after the first `spared` on, or goes on for ever when `endless`."""

    events: list[generation_pb2.GenerateResponse] = field(
        default_factory=lambda: [
            chunk(0, [5, 6], "Grüße"),
            chunk(2, [7, 8, 9], ", 世界"),
            summary("!"),
        ]
    )
    error: tuple[grpc.StatusCode, str, bytes] | None = None
    chat_error: tuple[grpc.StatusCode, str, bytes] | None = None
    spared: int = 0
    endless: bool = False
    pause_s: float = 0.0
    running: int = 0
    most_running: int = 0
    chunk = staticmethod(chunk)
    summary = staticmethod(summary)
    error_status = staticmethod(error_status)
    status: generation_pb2.GenerationServiceGetStatusResponse = field(
        default_factory=generation_pb2.GenerationServiceGetStatusResponse
    )
    requests: list[generation_pb2.GenerateRequest] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)

    async def Generate(  # noqa: N802
        self, request: generation_pb2.GenerateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async for event in self._answer(request, context):
                yield event
        finally:
            self.running -= 1

    async def _answer(
        self, request: generation_pb2.GenerateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        if self.chat_error is not None and request.HasField("chat"):
            await _abort(context, self.chat_error)
        for event in self.events:
            await asyncio.sleep(self.pause_s)
            yield event
        if self.error is not None and len(self.requests) > self.spared:
            await _abort(context, self.error)
        offset = 5
        try:
            while self.endless:
                yield chunk(offset, [offset], " more")
                offset += 1
                await asyncio.sleep(0.01)
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise

    async def GetStatus(  # noqa: N802
        self,
        request: generation_pb2.GenerationServiceGetStatusRequest,
        context: grpc.aio.ServicerContext,
    ) -> generation_pb2.GenerationServiceGetStatusResponse:
        return self.status


async def _abort(
    context: grpc.aio.ServicerContext, error: tuple[grpc.StatusCode, str, bytes]
) -> None:
    code, message, details = error
    await context.abort(code, message, (("grpc-status-details-bin", details),))


@dataclass
class ScriptedServer:
    """Where the script is served."""

    address: str
    script: Script
    stop: threading.Event
    certificate: Path | None = None
    key: Path | None = None


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server on a free port."""
    with serving(Script()) as found:
        yield found


@pytest.fixture
def secure_server(tmp_path: Path) -> Iterator[ScriptedServer]:
    """A server that has the certificate `pair.pem` of its own authority and asks for another."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    key, certificate = tmp_path / "key.pem", tmp_path / "pair.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subject = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *subject, *files], check=True, capture_output=True)
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), certificate.read_bytes())],
        root_certificates=certificate.read_bytes(),
        require_client_auth=True,
    )
    with serving(Script(), credentials) as found:
        found.certificate, found.key = certificate, key
        yield found


@contextmanager
def serving(
    script: Script, credentials: grpc.ServerCredentials | None = None
) -> Iterator[ScriptedServer]:
    """Serves the script with grpc.aio, on a loop of a thread of its own."""
    started: Future[int] = Future()
    stop = threading.Event()

    async def serve() -> None:
        aio_server = grpc.aio.server()
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(script, aio_server)
        if credentials is None:
            port = aio_server.add_insecure_port("127.0.0.1:0")
        else:
            port = aio_server.add_secure_port("127.0.0.1:0", credentials)
        await aio_server.start()
        started.set_result(port)
        await asyncio.to_thread(stop.wait)
        await aio_server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield ScriptedServer(f"127.0.0.1:{started.result(timeout=10)}", script, stop)
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def worker_status() -> generation_pb2.WorkerStatus:
    """A target that serves."""
    return generation_pb2.WorkerStatus(
        address="127.0.0.1:7421",
        reachable=True,
        usable=True,
        model=model_pb2.GetModelResponse(
            name="[embedded]",
            role=model_pb2.WORKER_ROLE_TARGET,
            dtype="bfloat16",
            device="cpu",
            replica_id="0123456789abcdef",
        ),
        status=model_pb2.ModelServiceGetStatusResponse(
            handles_in_use=3,
            handles_leased=4,
            rounds=100,
            draft_tokens=200,
            accepted_tokens=50,
            weights_bytes=270 << 20,
            kv_pool_bytes=4 << 30,
            kv_bytes=1 << 30,
            kv_blocks=4096,
            kv_blocks_in_use=1024,
            kv_blocks_cached=2048,
            prefix_asked_tokens=1000,
            prefix_hit_tokens=833,
            preemptions=2,
            queue_depth=7,
            mean_batch_size=6.4,
            price=0.31,
        ),
    )


Outrider = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def outrider() -> Outrider:
    """Runs the command to its end."""

    def run(*arguments: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "outrider", *arguments],
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run
