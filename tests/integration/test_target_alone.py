"""Generations without draft tokens: the target runs ahead of the coordinator, and nobody notices
but by the time it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from grpc import aio

from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, generation_pb2, model_pb2, target_pb2
from target_service.servicer import VerifyHandler

PROMPT = [1, 2, 3]
SAMPLED = common_pb2.SamplingParams(seed=9, top_k=6, frequency_penalty=0.2)
GREEDY = common_pb2.SamplingParams(temperature=0)
STEP_S = 0.01


def plan(step_time_s: float = 0.0) -> WorkerPlan:
    return WorkerPlan(TableModel(random_table(seed=1), step_time_s=step_time_s))


def watched_plan() -> tuple[WorkerPlan, list[int]]:
    """The same model, and the lengths of all that it is asked to go on from."""
    table, lengths = random_table(seed=1), list[int]()

    def logits(token_ids: Sequence[int]) -> torch.Tensor:
        lengths.append(len(token_ids))
        return table[token_ids[-2], token_ids[-1]]

    return WorkerPlan(ScriptedModel(logits, vocabulary_size=len(table))), lengths


def request(
    length: int, sampling: common_pb2.SamplingParams = SAMPLED, draft_length: int = 0
) -> generation_pb2.GenerateRequest:
    return token_request(
        PROMPT,
        max_new_tokens=length,
        sampling=sampling,
        speculation=generation_pb2.SpeculationParams(draft_length=draft_length),
    )


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[target_pb2.VerifyRound]:
    """The Rounds that reach a target."""
    seen: list[target_pb2.VerifyRound] = []
    original = VerifyHandler.round_of

    def counted(
        self: VerifyHandler, message: target_pb2.VerifyRequest
    ) -> target_pb2.VerifyRound | None:
        seen.append(message.round)
        return original(self, message)

    monkeypatch.setattr(VerifyHandler, "round_of", counted)
    return seen


async def without_runs(cluster: Cluster) -> None:
    """Makes the coordinator believe that its target has no runs."""
    known = cluster.target.runtime.description
    features = tuple(name for name in known.features if name != "decode_tokens")
    cluster.target.runtime.description = replace(known, features=features)
    await cluster.coordinator.pools.look()


async def load(cluster: Cluster) -> model_pb2.ModelServiceGetStatusResponse:
    return await cluster.target.runtime.status()


@pytest.mark.parametrize("sampling", [SAMPLED, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("draft", [None, plan()], ids=["no pool", "draft length 0"])
async def test_the_output_is_that_of_single_rounds_without_their_round_trips(
    sampling: common_pb2.SamplingParams,
    draft: WorkerPlan | None,
    rounds: list[target_pb2.VerifyRound],
) -> None:
    async with running_cluster(plan(), draft) as cluster:
        ahead = await cluster.generate(request(200, sampling))
        asked = len(rounds)
        await without_runs(cluster)
        single = await cluster.generate(request(200, sampling))
    assert ahead.token_ids == single.token_ids
    assert len(ahead.token_ids) == 200
    assert ahead.gapless
    assert asked <= 2 + 200 // 16
    assert len(rounds) - asked == 200
    for summary in (ahead.summary, single.summary):
        assert summary.speculation.rounds == 200
        assert summary.speculation.mean_output_tokens_per_round == 1.0
        assert summary.speculation.replays == 0


async def test_a_tiny_model_in_float64_gives_the_same_bytes() -> None:
    async with running_cluster(WorkerPlan(tiny_model()), None) as cluster:
        ahead = [await cluster.generate(request(60, sampling)) for sampling in (SAMPLED, GREEDY)]
        await without_runs(cluster)
        single = [await cluster.generate(request(60, sampling)) for sampling in (SAMPLED, GREEDY)]
    assert [output.token_ids for output in ahead] == [output.token_ids for output in single]


async def test_a_generation_with_draft_tokens_has_no_runs(
    rounds: list[target_pb2.VerifyRound],
) -> None:
    async with running_cluster(plan(), plan()) as cluster:
        await cluster.generate(request(30, draft_length=3))
    assert not any(message.decode_tokens for message in rounds)


@pytest.mark.parametrize("length", [1, 2, 16, 17, 33, 50])
async def test_the_target_decodes_no_token_beyond_the_end(length: int) -> None:
    """However late the coordinator is with asking for more: then some are decoded twice."""
    target, lengths = watched_plan()
    async with running_cluster(target, None) as cluster:
        output = await cluster.generate(request(length))
        now = await load(cluster)
    assert len(output.token_ids) == length
    assert output.summary.finish_reason == generation_pb2.FINISH_REASON_LENGTH
    assert set(lengths) == set(range(len(PROMPT), len(PROMPT) + length))
    assert now.kv_blocks_in_use == 0


async def test_a_stop_id_ends_the_run_too() -> None:
    target, lengths = watched_plan()
    async with running_cluster(target, None) as cluster:
        expected = (await cluster.generate(request(100))).token_ids
        lengths.clear()
        sampling = common_pb2.SamplingParams(stop_token_ids=[expected[40]])
        sampling.MergeFrom(SAMPLED)
        output = await cluster.generate(request(100, sampling))
        place = expected.index(expected[40])
        assert output.token_ids == expected[: place + 1]
        assert output.summary.finish_reason == generation_pb2.FINISH_REASON_STOP
    assert max(lengths) == len(PROMPT) + place


async def test_a_client_that_leaves_ends_the_run_within_a_token() -> None:
    target = plan(STEP_S)
    async with running_cluster(target, None) as cluster:
        call = cluster.stub.Generate(request(2000))
        for _ in range(3):
            await call.read()
        call.cancel()
        async with asyncio.timeout(60):
            while (await load(cluster)).open_streams:  # noqa: ASYNC110
                await asyncio.sleep(STEP_S)
        assert isinstance(target.model, TableModel)
        forwards = target.model.forwards
        assert forwards < 3 + 32
        await asyncio.sleep(5 * STEP_S)
        assert target.model.forwards == forwards
        assert (await load(cluster)).kv_blocks_in_use == 0


async def test_where_the_time_went_is_told_token_by_token() -> None:
    async with running_cluster(plan(STEP_S), None) as cluster:
        output = await cluster.generate(request(40))
    times = output.summary.speculation
    assert times.verify_ms >= 39 * STEP_S * 1000
    assert times.decode_ms >= 0.9 * times.verify_ms
    known_ms = times.verify_ms + times.queue_ms
    assert times.hop_ms == pytest.approx(max(0.0, times.decode_ms - known_ms))


async def test_a_target_that_dies_in_a_run_ends_the_request() -> None:
    async with running_cluster(plan(STEP_S), None) as cluster:
        call = cluster.stub.Generate(request(2000))
        await call.read()
        await cluster.target.stop(0)
        with pytest.raises(aio.AioRpcError) as caught:
            while await call.read() is not aio.EOF:
                pass
    assert caught.value.code().name == "UNAVAILABLE"
