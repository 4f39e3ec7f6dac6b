"""What a run looks like in a trace: every token has its round, the target one span per request."""

from __future__ import annotations

from collections import Counter

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from outrider import telemetry
from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import generation_pb2

TOKENS = 60


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Every span that ends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("test"))
    return exporter


async def test_a_run_is_traced_token_by_token(spans: InMemorySpanExporter) -> None:
    target = WorkerPlan(TableModel(random_table(seed=1), step_time_s=0.002))
    async with running_cluster(target, None) as cluster:
        output = await cluster.generate(token_request([1, 2, 3], max_new_tokens=TOKENS))
    finished = spans.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in finished if span.context} == {
        output.summary.trace_id
    }
    names = Counter(span.name.split()[0] for span in finished)
    asked = names.pop(telemetry.TARGET_ROUND_SPAN)
    assert names == {"generate": 1, "round": TOKENS, "verify": TOKENS}
    assert 2 <= asked <= 1 + TOKENS // 16
    calls = {
        span.context.span_id: dict(span.attributes or {})
        for span in finished
        if span.name == telemetry.VERIFY_SPAN and span.context
    }
    worked = [span for span in finished if span.name == telemetry.TARGET_ROUND_SPAN]
    assert all(span.parent and span.parent.span_id in calls for span in worked)
    told = [dict(span.attributes or {}) for span in worked]
    assert sum(int(str(a[telemetry.ANSWERS])) for a in told) == TOKENS
    for name in (telemetry.FORWARD_US, telemetry.QUEUE_US):
        assert sum(int(str(a[name])) for a in told) == sum(
            int(str(a[name])) for a in calls.values()
        )
    assert all(a[telemetry.BATCH_SIZE] == 1 for a in calls.values())


async def test_drafting_is_traced_from_commit_to_last_token(spans: InMemorySpanExporter) -> None:
    model = TableModel(random_table(seed=1), step_time_s=0.005)
    draft = TableModel(random_table(seed=2), step_time_s=0.001)
    async with running_cluster(WorkerPlan(model), WorkerPlan(draft)) as cluster:
        speculation = generation_pb2.SpeculationParams(draft_length=3)
        output = await cluster.generate(
            token_request([1, 2, 3], max_new_tokens=TOKENS, speculation=speculation)
        )
        await cluster.coordinator.stop(0.1)
    finished = spans.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in finished if span.context} == {
        output.summary.trace_id
    }
    (root,) = (span for span in finished if span.name.startswith("generate"))
    asked = [span for span in finished if span.name == telemetry.DRAFT_SPAN]
    assert root.context
    assert all(span.parent and span.parent.span_id == root.context.span_id for span in asked)
    told = output.summary.speculation
    assert told.drafted_rounds <= len(asked) <= told.rounds
    sent = sum(int(str((span.attributes or {}).get(telemetry.DRAFT_TOKENS, 0))) for span in asked)
    assert sent >= told.draft_tokens
    calls = {span.context.span_id for span in asked if span.context}
    worked = [span for span in finished if span.name == telemetry.DRAFT_ROUND_SPAN]
    assert worked
    assert all(span.parent and span.parent.span_id in calls for span in worked)
    rounds = [dict(span.attributes or {}) for span in finished if span.name == "round"]
    waits = [int(str(a.get(telemetry.DRAFT_WAIT_US, 0))) for a in rounds]
    assert sum(waits) / 1000 == pytest.approx(told.draft_wait_ms, abs=1.0)
