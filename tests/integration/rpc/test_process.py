"""A serving process: its end by signal, its logs, and its traces at a real OTLP receiver."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from outrider.rpc.channel import open_channel
from outrider.rpc.ready import announced

PROGRAM = Path(__file__).with_name("serving_process.py")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DEADLINE_S = 60


@dataclass
class Process:
    """The running program and a channel to it."""

    child: subprocess.Popen[str]
    channel: aio.Channel

    def stream(self, **metadata: str) -> Any:
        return self.channel.stream_stream("/test.Bytes/StreamStream")(
            metadata=tuple(metadata.items())
        )

    async def end(self, *signals: signal.Signals) -> tuple[int, str, list[dict[str, Any]]]:
        """Exit code, standard output and log events."""
        for number in signals:
            self.child.send_signal(number)
        out, err = await asyncio.to_thread(self.child.communicate, timeout=DEADLINE_S)
        return self.child.returncode, out, [json.loads(line) for line in err.splitlines()]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Any]:
    """Starts the program with some environment and waits until it listens."""
    running: list[Process] = []

    async def begin(loading: str = "at once", **environment: str) -> Process:
        ready_file = tmp_path / "ready"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        child = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, str(PROGRAM), str(ready_file), loading],
            env={**clean, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + DEADLINE_S
        while (address := announced(ready_file)) is None:
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        process = Process(child, open_channel(address))
        running.append(process)
        return process

    yield begin
    for process in running:
        await process.channel.close()
        if process.child.poll() is None:
            process.child.kill()
            process.child.communicate()


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.batches.extend(request.resource_spans)
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[Any]:
        return [
            span for batch in self.batches for scope in batch.scope_spans for span in scope.spans
        ]

    def resource(self) -> dict[str, str]:
        (attributes,) = {
            tuple((pair.key, pair.value.string_value) for pair in batch.resource.attributes)
            for batch in self.batches
        }
        return dict(attributes)


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    servicer = Receiver()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"http://127.0.0.1:{port}"
    server.stop(0).wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_open_streams_finish(start: Any, number: signal.Signals) -> None:
    process = await start()
    watch = health_pb2_grpc.HealthStub(process.channel).Watch(
        health_pb2.HealthCheckRequest(service="test.Bytes")
    )
    while (await watch.read()).status != health_pb2.HealthCheckResponse.SERVING:
        pass
    call = process.stream()
    await call.write(b"")
    await call.read()
    process.child.send_signal(number)
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await call.write(b"")
    assert await call.read() is not aio.EOF
    await call.done_writing()
    assert await call.read() is aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    code, out, _ = await process.end()
    assert (code, out) == (0, "no sdk\n")


async def test_a_signal_ends_a_process_that_still_loads(start: Any) -> None:
    process = await start("forever")
    check = health_pb2_grpc.HealthStub(process.channel).Check
    answer = await check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)
    assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    code, _, _ = await process.end(signal.SIGTERM)
    assert code == 0


async def test_logs_are_json_and_withhold_what_callers_wrote(start: Any) -> None:
    process = await start()
    call = process.stream(traceparent=PARENT)
    await call.write(b"")
    await call.read()
    await call.done_writing()
    await call.code()
    _, _, events = await process.end(signal.SIGTERM)
    (event,) = [event for event in events if event["event"] == "answering"]
    assert event["level"] == "info"
    assert event["trace_id"] == PARENT.split("-")[1]
    assert "hunter2" not in json.dumps(events)


async def test_spans_of_a_stream_arrive_in_the_callers_trace(
    start: Any, receiver: tuple[Receiver, str]
) -> None:
    collector, endpoint = receiver
    process = await start(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_TRACES_SAMPLER="always_on")
    call = process.stream(traceparent=PARENT, tracestate="vendor=1")
    for _ in range(3):
        await call.write(b"")
        assert await call.read() == PARENT.split("-")[1].encode()
    await call.done_writing()
    await call.code()
    code, out, _ = await process.end(signal.SIGTERM)
    assert (code, out) == (0, "sdk\n")
    assert {span.trace_id.hex() for span in collector.spans} == {PARENT.split("-")[1]}
    (root,) = [span for span in collector.spans if span.name == "generate"]
    rounds = [span for span in collector.spans if span.name == "round"]
    assert root.parent_span_id.hex() == PARENT.split("-")[2]
    assert [span.parent_span_id for span in rounds] == [root.span_id] * 3
    assert {span.trace_state for span in collector.spans} == {"vendor=1"}
    attributes = {pair.key: pair.value.string_value for pair in root.attributes}
    assert attributes["gen_ai.request.model"] == "tiny"
    assert attributes["gen_ai.operation.name"] == "text_completion"
    resource = collector.resource()
    assert resource["service.name"] == "test-service"
    assert resource["service.instance.id"] == "replica-1"


async def test_the_operator_names_the_service(start: Any, receiver: tuple[Receiver, str]) -> None:
    collector, endpoint = receiver
    process = await start(
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=endpoint,
        OTEL_SERVICE_NAME="mine",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=lab,service.instance.id=one",
    )
    call = process.stream()
    await call.write(b"")
    await call.read()
    await call.done_writing()
    await call.code()
    await process.end(signal.SIGTERM)
    resource = collector.resource()
    assert resource["service.name"] == "mine"
    assert resource["service.instance.id"] == "one"
    assert resource["deployment.environment.name"] == "lab"


async def test_cancelled_streams_are_no_failures_and_log_no_error(
    start: Any, receiver: tuple[Receiver, str]
) -> None:
    collector, endpoint = receiver
    process = await start(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    calls = [process.stream() for _ in range(50)]
    for call in calls:
        await call.write(b"")
        await call.read()
    for call in calls:
        call.cancel()
    code, _, events = await process.end(signal.SIGTERM)
    assert code == 0
    assert [event for event in events if event["level"] != "info"] == []
    roots = [span for span in collector.spans if span.name == "generate"]
    assert len(roots) == 50
    assert all(span.status.code == 0 for span in roots)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "ENDPOINT"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "ENDPOINT"},
        {"OTEL_TRACES_SAMPLER": "always_on"},
    ],
)
async def test_tracing_stays_off(
    start: Any, receiver: tuple[Receiver, str], environment: dict[str, str]
) -> None:
    collector, endpoint = receiver
    filled = {key: value.replace("ENDPOINT", endpoint) for key, value in environment.items()}
    process = await start(**filled)
    call = process.stream()
    await call.write(b"")
    assert await call.read() == b""
    await call.done_writing()
    await call.code()
    code, out, _ = await process.end(signal.SIGTERM)
    assert (code, out) == (0, "no sdk\n")
    assert collector.batches == []


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "abc"},
    ],
)
async def test_trouble_with_tracing_never_stops_a_service(
    start: Any, environment: dict[str, str]
) -> None:
    process = await start(**environment)
    call = process.stream()
    await call.write(b"")
    assert await call.read() is not aio.EOF
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK
    code, _, events = await process.end(signal.SIGTERM)
    assert code == 0
    assert any(event["level"] in ("warning", "error") for event in events)
