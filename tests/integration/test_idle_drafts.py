"""Drafts that are configured and of no use: somebody is told (FAULTS H7)."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from outrider.testing.cluster import WorkerPlan, running_cluster
from outrider.v1 import generation_pb2
from tests.integration.undisturbed import PROMPT, table

OFF = generation_pb2.SPECULATION_MODE_OFF
ASKED = generation_pb2.GenerateRequest(
    tokens=generation_pb2.TokenPrompt(token_ids=PROMPT), max_new_tokens=20
)


@pytest.mark.parametrize(
    ("settings", "idle"),
    [({"speculation": "off"}, True), ({"draft_length": 0}, True), ({"draft_length": 2}, False)],
    ids=["off", "none", "two"],
)
async def test_a_deployment_that_never_asks_its_drafts_says_so(
    settings: dict[str, Any], idle: bool
) -> None:
    with capture_logs() as logs:
        async with running_cluster(WorkerPlan(table()), WorkerPlan(table()), **settings) as cluster:
            output = await cluster.generate(ASKED)
            status = await cluster.stub.GetStatus(
                generation_pb2.GenerationServiceGetStatusRequest()
            )
    warnings = [one for one in logs if one["log_level"] == "warning"]
    assert [("speculation is off" in one["event"]) for one in warnings] == [True] * idle
    assert (output.summary.speculation.draft_tokens == 0) == idle
    told = status.speculation_mode == OFF or (
        status.HasField("draft_length") and status.draft_length == 0
    )
    assert told == idle
    assert len(status.drafts) == 1


async def test_without_drafts_there_is_nothing_to_say() -> None:
    with capture_logs() as logs:
        async with running_cluster(WorkerPlan(table()), None, speculation="off"):
            pass
    assert not [one for one in logs if one["log_level"] == "warning"]
