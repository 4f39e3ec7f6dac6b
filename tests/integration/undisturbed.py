"""A request, and the output that no draft may disturb."""

from __future__ import annotations

from typing import Any

from outrider.testing.cluster import (
    Output,
    WorkerPlan,
    running_cluster,
    token_request,
)
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import (
    common_pb2,
    generation_pb2,
)

PROMPT = [1, 2, 3]

SIZE = 8

LENGTH = 60


def table(seed: int = 1, **times: float) -> TableModel:
    return TableModel(random_table(seed=seed), **times)


def request(**fields: Any) -> generation_pb2.GenerateRequest:
    fields.setdefault("sampling", common_pb2.SamplingParams(temperature=0))
    fields.setdefault("speculation", generation_pb2.SpeculationParams(draft_length=3))
    return token_request(PROMPT, max_new_tokens=LENGTH, **fields)


async def alone() -> list[int]:
    async with running_cluster(WorkerPlan(table()), None) as cluster:
        return (await cluster.generate(request())).token_ids


def assert_undisturbed(output: Output, expected: list[int]) -> None:
    assert output.token_ids == expected
    assert output.gapless
    assert output.summary.finish_reason == generation_pb2.FINISH_REASON_LENGTH
