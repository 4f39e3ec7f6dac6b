"""Acceptance is told for each request, so that a slow one can be explained."""

from __future__ import annotations

import pytest

from outrider.testing.cluster import Output, WorkerPlan, running_cluster, token_request
from outrider.testing.emulated import Agreement, emulated_draft, emulated_target
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.coupled_requests import generate_all

LENGTH = 300
DRAFT_LENGTH = 4


def request(acceptance: float, salt: int) -> generation_pb2.GenerateRequest:
    return token_request(
        Agreement(acceptance=acceptance).prompt(salt),
        max_new_tokens=LENGTH,
        sampling=common_pb2.SamplingParams(temperature=0),
        speculation=generation_pb2.SpeculationParams(draft_length=DRAFT_LENGTH),
    )


def first_accepted(output: Output) -> float:
    """How often the first draft token of a round was accepted."""
    speculation = output.summary.speculation
    return speculation.accepted_per_position[0] / speculation.drafted_rounds


async def test_requests_at_once_are_told_apart() -> None:
    acceptances = [0.1, 0.5, 0.9, 0.5]
    async with running_cluster(
        WorkerPlan(emulated_target()), WorkerPlan(emulated_draft())
    ) as cluster:
        outputs = await generate_all(
            cluster, (request(acceptance, salt) for salt, acceptance in enumerate(acceptances))
        )
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    for acceptance, output in zip(acceptances, outputs, strict=True):
        assert first_accepted(output) == pytest.approx(acceptance, abs=0.15)
        assert_adds_up(output)
    sums = status.speculation
    for name in ("rounds", "drafted_rounds", "draft_tokens", "accepted_tokens", "replays"):
        each = [getattr(output.summary.speculation, name) for output in outputs]
        assert getattr(sums, name) == sum(each), name
    assert len({output.summary.speculation.mean_output_tokens_per_round for output in outputs}) == 4


def assert_adds_up(output: Output) -> None:
    speculation = output.summary.speculation
    assert speculation.rounds == len(output.chunks)
    assert sum(speculation.accepted_per_position) == speculation.accepted_tokens
    assert sum(speculation.rounds_by_draft_length) == speculation.rounds
    judged = sum(k * count for k, count in enumerate(speculation.rounds_by_draft_length))
    assert judged == speculation.draft_tokens
    assert speculation.mean_output_tokens_per_round == pytest.approx(LENGTH / speculation.rounds)
