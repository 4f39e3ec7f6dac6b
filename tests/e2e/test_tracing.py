"""One trace of a generation over three real processes, at a real OTLP/gRPC receiver."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from outrider.testing.processes import running_services
from outrider.testing.tiny_models import DRAFT_SEED, TARGET_SEED, save_tiny
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

CALLER_TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER_SPAN = "b7ad6b7169203331"

# Child → the span that it hangs from.
SPAN_EDGES = {
    "round": "generate",
    "draft": "generate",
    "verify": "round",
    "draft.round": "draft",
    "target.round": "verify",
}


@dataclass(frozen=True)
class Seen:
    service: str
    span: Span

    @property
    def attributes(self) -> dict[str, int | str | bool]:
        return {
            pair.key: getattr(pair.value, pair.value.WhichOneof("value"))
            for pair in self.span.attributes
        }


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span that arrives."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []

    def Export(  # noqa: N802
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: object
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans.extend(Seen(names["service.name"], span) for span in scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    receiver = Receiver()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield receiver, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


def test_one_trace_over_all_three_services(receiver: tuple[Receiver, str], tmp_path: Path) -> None:
    spans, endpoint = receiver
    folders = {
        "target": save_tiny(tmp_path / "target", seed=TARGET_SEED),
        "draft": save_tiny(tmp_path / "draft", seed=DRAFT_SEED),
    }
    settings = {
        name: {"model": str(folder), "dtype": "float64", "threads": "1"}
        for name, folder in folders.items()
    }
    with running_services(
        tmp_path,
        target=settings["target"],
        draft=settings["draft"],
        coordinator={"draft_timeout_ms": "30000"},
        environment={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
    ) as services:
        with grpc.insecure_channel(services.address) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)
            request = generation_pb2.GenerateRequest(
                tokens=generation_pb2.TokenPrompt(token_ids=[5, 6, 7]),
                max_new_tokens=20,
                sampling=common_pb2.SamplingParams(temperature=0, ignore_eos=True),
                speculation=generation_pb2.SpeculationParams(
                    mode=generation_pb2.SPECULATION_MODE_ON, draft_length=3
                ),
            )
            metadata = (("traceparent", f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"),)
            *_, last = stub.Generate(request, metadata=metadata)
        for service in (services.coordinator, services.target, services.draft):
            assert service.stop() == 0, service.log.read_text()
    summary = last.summary
    assert summary.trace_id == CALLER_TRACE
    seen = [one for one in spans.spans if one.span.trace_id.hex() == CALLER_TRACE]
    assert len(seen) == len(spans.spans)
    by_id = {one.span.span_id: one for one in seen}
    names = [one.span.name for one in seen]
    rounds = summary.speculation.rounds
    assert names.count("round") == names.count("verify") == names.count("target.round") == rounds
    assert names.count("draft") >= summary.speculation.drafted_rounds
    # A round of the draft that a later one replaced in time was never begun.
    assert 0 < names.count("draft.round") <= names.count("draft")
    (root,) = (one for one in seen if one.span.parent_span_id.hex() == CALLER_SPAN)
    assert root.span.name.startswith("generate")
    for one in seen:
        if one is root:
            continue
        parent = by_id[one.span.parent_span_id]
        assert parent.span.name.startswith(SPAN_EDGES[one.span.name])
        assert parent.span.start_time_unix_nano <= one.span.start_time_unix_nano
    assert {one.service for one in seen} == {
        "outrider-coordinator",
        "outrider-target",
        "outrider-draft",
    }
    decided = [one.attributes for one in seen if one.span.name == "round"]
    assert sum(int(a["outrider.accepted_tokens"]) for a in decided) == (
        summary.speculation.accepted_tokens
    )
    assert sum(int(a["outrider.output_tokens"]) for a in decided) == summary.usage.output_tokens
    worked = [one.attributes for one in seen if one.span.name == "target.round"]
    assert all(int(a["outrider.forward_us"]) > 0 for a in worked)
    assert all("outrider.queue_us" in a for a in worked)
