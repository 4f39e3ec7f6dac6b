"""The same seed gives the same output at temperature 1 whatever is done to speculate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from outrider.engine.model import Model
from outrider.testing.cluster import Cluster, Output, WorkerPlan, running_cluster
from outrider.testing.tiny_models import DRAFT_SEED, TARGET_SEED, tiny_model
from outrider.v1 import common_pb2
from tests.integration.coupled_requests import OFF, WAYS, generate_all, replace_draft, seeded
from tests.integration.tampered_draft import tampered_cluster

PROMPT = [1, 2, 3]
LENGTH = 48
SHAPED = {"temperature": 1.0, "top_p": 0.95, "top_k": 40, "presence_penalty": 0.3}

DRAFTS: dict[str, Callable[[], Model]] = {
    "its own": lambda: tiny_model(seed=DRAFT_SEED),
    "the target": lambda: tiny_model(seed=TARGET_SEED),
    "another model": lambda: tiny_model(seed=77),
}


def target_plan(**fields: int) -> WorkerPlan:
    return WorkerPlan(tiny_model(seed=TARGET_SEED, **fields))


async def expected(cluster: Cluster, **sampling: float) -> list[int]:
    """What the target gives alone."""
    output = await cluster.generate(seeded(PROMPT, OFF, length=LENGTH, **sampling))
    assert len(output.token_ids) == LENGTH
    return output.token_ids


async def all_ways(cluster: Cluster, **sampling: float) -> dict[str, Output]:
    requests = [seeded(PROMPT, way, length=LENGTH, **sampling) for way in WAYS.values()]
    return dict(zip(WAYS, await generate_all(cluster, requests), strict=True))


def assert_all_are(outputs: dict[str, Output], token_ids: list[int]) -> None:
    for name, output in outputs.items():
        assert output.gapless, name
        assert output.summary.reproducible, name
        assert output.token_ids == token_ids, name


async def test_a_distant_draft_that_dies_midway() -> None:
    """Once with a draft that is always right, then another model in its place."""
    async with running_cluster(
        target_plan(), WorkerPlan(DRAFTS["the target"]()), draft_round_trip_s=0.02
    ) as cluster:
        alone = await expected(cluster)
        outputs, _ = await asyncio.gather(all_ways(cluster), killed_midway(cluster))
        assert_all_are(outputs, alone)
        assert accepted_and_drafted(outputs)[0] > 0
        accepted = drafted = 0
        async with asyncio.timeout(30):
            while drafted == 0:
                # The address may still be at rest for what happened to the draft before.
                again = await all_ways(cluster)
                assert_all_are(again, alone)
                accepted, drafted = accepted_and_drafted(again)
    assert accepted < drafted, "the other model did not draft"


def accepted_and_drafted(outputs: dict[str, Output]) -> tuple[int, int]:
    counts = [output.summary.speculation for output in outputs.values()]
    return sum(c.accepted_tokens for c in counts), sum(c.draft_tokens for c in counts)


async def killed_midway(cluster: Cluster) -> None:
    assert cluster.draft is not None
    counts = cluster.draft.runtime.counts
    async with asyncio.timeout(30):
        while counts.draft_tokens < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await replace_draft(cluster, WorkerPlan(DRAFTS["another model"]()))


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [{}, SHAPED], ids=["plain", "shaped"])
@pytest.mark.parametrize("round_trip_s", [None, 0.0, 0.02])
@pytest.mark.parametrize("draft", DRAFTS)
async def test_every_way(
    draft: str, round_trip_s: float | None, sampling: dict[str, float]
) -> None:
    async with running_cluster(
        target_plan(), WorkerPlan(DRAFTS[draft]()), draft_round_trip_s=round_trip_s
    ) as cluster:
        alone = await expected(cluster, **sampling)
        assert_all_are(await all_ways(cluster, **sampling), alone)


async def test_a_draft_that_sends_garbage() -> None:
    """Mostly it is not even of use: what the draft builds upon is not what it said."""

    def garbage(token: common_pb2.DraftToken) -> None:
        token.token_id = (token.token_id * 7 + token.node_id) % 8

    async with tampered_cluster(garbage) as cluster:
        requests = [seeded(PROMPT, way, length=LENGTH) for way in WAYS.values()]
        outputs = await generate_all(cluster, requests)
    assert len({tuple(output.token_ids) for output in outputs}) == 1
    assert sum(output.summary.speculation.draft_tokens for output in outputs) > 0


async def test_a_target_short_of_room() -> None:
    """State is lost and read again while others decode."""
    async with running_cluster(target_plan(blocks=24), WorkerPlan(DRAFTS["its own"]())) as cluster:
        alone = await expected(cluster)
        outputs = await all_ways(cluster)
    assert_all_are(outputs, alone)
    assert sum(output.summary.speculation.replays for output in outputs.values()) > 0


@pytest.mark.parametrize("name", ["off", "k 5", "k 3, branches", "auto"])
async def test_a_resumed_generation_goes_on_alike(name: str) -> None:
    async with running_cluster(
        target_plan(), WorkerPlan(DRAFTS["its own"]()), draft_round_trip_s=0.005
    ) as cluster:
        alone = await expected(cluster)
        kept = [1, 2, 3, 17, LENGTH - 1]
        requests = [
            seeded(PROMPT, WAYS[name], length=LENGTH, resumed=alone[:length]) for length in kept
        ]
        outputs = await generate_all(cluster, requests)
    for length, output in zip(kept, outputs, strict=True):
        assert output.token_ids == alone[length:]
