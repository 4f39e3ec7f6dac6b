"""Sampling at the edges of its ranges, as a client of the three services sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import torch

from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
PROMPT = [1, 2, 3]
LENGTH = 40
SPECULATING = generation_pb2.SpeculationParams(
    mode=generation_pb2.SPECULATION_MODE_ON, draft_length=3
)
TABLE = random_table(seed=1)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster(
        WorkerPlan(TableModel(TABLE)), WorkerPlan(TableModel(random_table(seed=2)))
    ) as running:
        yield running


async def output(cluster: Cluster, **fields: Any) -> list[int]:
    sampling = common_pb2.SamplingParams(**fields)
    request = token_request(
        PROMPT, max_new_tokens=LENGTH, sampling=sampling, speculation=SPECULATING
    )
    return (await cluster.generate(request)).token_ids


def most_likely(*, banned: Sequence[int] = ()) -> list[int]:
    """What greedy decoding gives."""
    token_ids = list(PROMPT)
    for _ in range(LENGTH):
        row = TABLE[token_ids[-2], token_ids[-1]].clone()
        row[list(banned)] = -torch.inf
        token_ids.append(int(row.argmax()))
    return token_ids[len(PROMPT) :]


async def test_an_unset_field_is_its_default_and_never_zero(cluster: Cluster) -> None:
    defaults = {
        "temperature": 1.0,
        "top_p": 1.0,
        "min_p": 0.0,
        "top_k": 0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
    }
    unset = await output(cluster, seed=9)
    assert unset == await output(cluster, seed=9, **defaults)
    assert unset != most_likely()
    request = token_request(PROMPT, max_new_tokens=LENGTH, speculation=SPECULATING)
    assert (await cluster.generate(request)).token_ids != most_likely()
    assert await output(cluster, seed=9, temperature=0) == most_likely()


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1e-12},
        {"temperature": 1e-5},
        {"temperature": 1e-4},
        {"top_p": 1e-6},
        {"top_k": 1},
        {"min_p": 1.0},
        {"temperature": 1e-4, "top_p": 1e-6, "min_p": 1.0, "top_k": 1},
    ],
    ids=str,
)
async def test_the_narrowest_sampling_is_the_most_likely_token(
    cluster: Cluster, fields: dict[str, Any]
) -> None:
    assert await output(cluster, **fields) == most_likely()
    assert len(await output(cluster)) == LENGTH


async def test_the_widest_sampling_gives_every_token(cluster: Cluster) -> None:
    seen: set[int] = set()
    for seed in range(10):
        widest = {"temperature": 100.0, "repetition_penalty": 10.0, "presence_penalty": -2.0}
        seen.update(await output(cluster, seed=seed, **widest))
    assert seen == set(range(SIZE))


async def test_requests_that_run_together_do_not_touch_each_other(cluster: Cluster) -> None:
    banned = most_likely()[0]
    greedy = {"temperature": 0.0, "logit_bias": {banned: -100.0}}
    sampled = [{"seed": seed} for seed in range(4)]
    alone = [await output(cluster, **fields) for fields in sampled]
    together = await asyncio.gather(
        *(output(cluster, **fields) for fields in [*[greedy] * 4, *sampled])
    )
    assert together[:4] == [most_likely(banned=[banned])] * 4
    assert together[4:] == alone


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_banned_token_comes_up_nowhere(temperature: float) -> None:
    banned = 5

    def certain(token_ids: Sequence[int]) -> list[float]:
        return [30.0 if token_id == banned else float(token_id) for token_id in range(SIZE)]

    target, draft = (ScriptedModel(certain, vocabulary_size=SIZE) for _ in range(2))
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        assert set(await output(cluster, temperature=temperature)) == {banned}
        for seed in range(5):
            fields = {"temperature": temperature, "seed": seed, "logit_bias": {banned: -100.0}}
            token_ids = await output(cluster, **fields)
            assert len(token_ids) == LENGTH
            assert banned not in token_ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft_length", [0, 1, 3, 8])
async def test_no_end_comes_before_min_tokens(temperature: float, draft_length: int) -> None:
    eos, stop = 7, 6

    def model() -> ScriptedModel:
        return ScriptedModel(lambda _: [0.0] * SIZE, vocabulary_size=SIZE)

    plan = WorkerPlan(model(), eos_token_ids=(eos,))
    async with running_cluster(plan, WorkerPlan(model())) as cluster:
        for least in (0, 1, 8):
            for favoured in (eos, stop):
                sampling = common_pb2.SamplingParams(
                    temperature=temperature,
                    min_tokens=least,
                    logit_bias={favoured: 50.0},
                    stop_token_ids=[stop],
                )
                speculation = generation_pb2.SpeculationParams(draft_length=draft_length)
                result = await cluster.generate(
                    token_request(
                        PROMPT, max_new_tokens=30, sampling=sampling, speculation=speculation
                    )
                )
                assert len(result.token_ids) == least + 1
                assert result.token_ids[-1] == favoured
                assert not {eos, stop} & set(result.token_ids[:-1])
                assert result.summary.finish_reason == generation_pb2.FINISH_REASON_STOP
