"""COUPLED output of the embedded pair in float32 at temperature 1, in every way to speculate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import torch

from benchmarks.embedded_pair import CACHE
from benchmarks.greedy import SMALL_MARGIN
from benchmarks.prompts import many_prompts
from outrider.engine.loading import LoadedModel, load_model
from outrider.engine.model import Chunk
from outrider.randomness import Purpose, derive_seed, gumbel, token_word
from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster
from outrider.testing.scripted import ScriptedModel
from outrider.v1 import generation_pb2
from outrider.worker.tokenizer_files import read_tokenizer_files
from tests.integration.coupled_requests import OFF, WAYS, generate_all, replace_draft, seeded

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(3600)]

SEED = 11


def load(role: str) -> LoadedModel:
    return load_model("embedded", role=role, cache_dir=CACHE, dtype="float32", threads=1)


def plan(loaded: LoadedModel) -> WorkerPlan:
    return WorkerPlan(
        loaded.model,
        dtype=loaded.dtype,
        eos_token_ids=loaded.eos_token_ids,
        tokenizer=read_tokenizer_files(loaded.folder),
    )


def ignorant(like: WorkerPlan) -> WorkerPlan:
    """A draft that knows the tokens and nothing of their meaning."""
    size = like.model.vocabulary_size
    logits = 3.0 * torch.randn(size, generator=torch.Generator().manual_seed(5))
    model = ScriptedModel(lambda ids: logits.roll(ids[-1]), vocabulary_size=size)
    return WorkerPlan(model, eos_token_ids=like.eos_token_ids, tokenizer=like.tokenizer)


async def prompt_ids(cluster: Cluster, text: str) -> list[int]:
    tokenizer = cluster.coordinator.pools.target_model().tokenizer
    assert tokenizer is not None
    message = generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content=text)
    return await tokenizer.encode_chat([message])


def score_margin(target: LoadedModel, token_ids: Sequence[int]) -> float:
    """The best log p + g after `token_ids` less the second; the model is to be idle."""
    model = target.model
    with torch.inference_mode():
        (rows,) = model.forward([Chunk(model.new_sequence(), token_ids, rows=1)])
    values, places = rows[0].double().log_softmax(dim=0).topk(4096)
    seed = derive_seed(Purpose.COUPLE, seed=SEED, choice_index=0)
    scores = sorted(
        value + gumbel(token_word(seed, position=len(token_ids), token_id=token_id))
        for value, token_id in zip(values.tolist(), places.tolist(), strict=True)
    )
    return float(scores[-1] - scores[-2])


async def differences(
    cluster: Cluster, target: LoadedModel, texts: Sequence[str], *, ways: Sequence[str], length: int
) -> list[float]:
    """For each prompt that some way answers unlike the target alone: the margin at that place."""
    found = []
    for text in texts:
        ids = await prompt_ids(cluster, text)
        alone = await cluster.generate(seeded(ids, OFF, length=length, seed=SEED))
        requests = [seeded(ids, WAYS[way], length=length, seed=SEED) for way in ways]
        margins = []
        for output in await generate_all(cluster, requests):
            assert output.summary.reproducible
            assert output.gapless
            if output.token_ids != alone.token_ids:
                pairs = zip(output.token_ids, alone.token_ids, strict=False)
                place = next(i for i, (one, other) in enumerate(pairs) if one != other)
                margins.append(score_margin(target, [*ids, *alone.token_ids[:place]]))
        if margins:
            found.append(max(margins))
    return found


def assert_near_ties_alone(found: Sequence[float]) -> None:
    assert len(found) <= 1
    assert all(margin < SMALL_MARGIN for margin in found)


async def test_two_ways_of_one_prompt() -> None:
    target = load("target")
    async with running_cluster(
        plan(target), plan(load("draft")), draft_round_trip_s=0.02
    ) as cluster:
        ways = ["k 6", "k 3, branches"]
        found = await differences(cluster, target, many_prompts(1), ways=ways, length=12)
    assert_near_ties_alone(found)


@pytest.mark.slow
async def test_every_way_with_the_draft_and_with_another_in_its_place() -> None:
    target = load("target")
    own = plan(load("draft"))
    found: list[float] = []
    async with running_cluster(plan(target), own, draft_round_trip_s=0.0) as cluster:
        assert cluster.draft_hop is not None
        for texts, round_trip_s in ((many_prompts(12)[:4], 0.0), (many_prompts(12)[4:8], 0.02)):
            cluster.draft_hop.round_trip_s = round_trip_s
            found += await differences(cluster, target, texts, ways=list(WAYS), length=48)
        killed = asyncio.create_task(replaced_soon(cluster, ignorant(own)))
        found += await differences(
            cluster, target, many_prompts(12)[8:], ways=list(WAYS), length=48
        )
        await killed
    assert_near_ties_alone(found)


async def replaced_soon(cluster: Cluster, plan: WorkerPlan) -> None:
    """Kills the draft in the middle of the answers."""
    await asyncio.sleep(5.0)
    await replace_draft(cluster, plan)
