"""Requests with a seed: the same output whatever the draft does, through real services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from grpc import StatusCode, aio

from outrider.engine.model import Model
from outrider.rpc.status import remote_error
from outrider.testing.cluster import Cluster, Output, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.tiny_models import tiny_model, tiny_pair
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.tampered_draft import Tamper, tampered_cluster
from tests.integration.undisturbed import SIZE

PROMPT = [1, 2, 3]
LENGTH = 40
SEED = 11
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
COUPLED = common_pb2.VERIFICATION_COUPLED
REJECTION = common_pb2.VERIFICATION_REJECTION


def k(draft_length: int, **fields: Any) -> generation_pb2.SpeculationParams:
    return generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_ON, draft_length=draft_length, **fields
    )


async def generate(
    cluster: Cluster,
    speculation: generation_pb2.SpeculationParams,
    *,
    resumed: list[int] | None = None,
    **sampling: Any,
) -> Output:
    return await cluster.generate(
        token_request(
            PROMPT,
            max_new_tokens=LENGTH,
            sampling=common_pb2.SamplingParams(**{"seed": SEED, **sampling}),
            speculation=speculation,
            output_token_ids=resumed or [],
        )
    )


def table(seed: int) -> TableModel:
    return TableModel(random_table(seed=seed))


@pytest.fixture
async def pair() -> AsyncIterator[Cluster]:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def drafts() -> list[Model | None]:
    """The tiny pair's own draft, its target, a model that has nothing to do with it, and none."""
    target, draft = tiny_pair()
    return [draft, target, tiny_model(seed=77), None]


@pytest.mark.parametrize(
    "draft_lengths",
    [
        pytest.param((0, 3, 8), id="quick"),
        pytest.param(range(9), id="all", marks=pytest.mark.slow),
    ],
)
async def test_no_draft_and_no_draft_length_changes_the_output(
    drafts: list[Model | None], draft_lengths: Sequence[int]
) -> None:
    outputs = set()
    for draft in drafts:
        target, _ = tiny_pair()
        plan = WorkerPlan(draft) if draft is not None else None
        async with running_cluster(WorkerPlan(target), plan) as cluster:
            ways = [OFF, k(2), k(3, draft_ahead=False), k(3, branches=4)]
            if draft is drafts[0]:
                ways += map(k, draft_lengths)
            for speculation in ways:
                output = await generate(cluster, speculation)
                assert output.gapless
                assert output.summary.reproducible
                outputs.add(tuple(output.token_ids))
    assert len(outputs) == 1
    assert len(outputs.pop()) == LENGTH


async def test_an_untrusted_draft_serves_as_well() -> None:
    async with running_cluster(
        WorkerPlan(table(1)), WorkerPlan(table(1)), draft_trust="untrusted"
    ) as cluster:
        alone, output = await generate(cluster, OFF), await generate(cluster, k(3))
    assert output.token_ids == alone.token_ids
    speculation = output.summary.speculation
    assert speculation.accepted_tokens == speculation.draft_tokens > 0


async def test_a_draft_equal_to_the_target_is_always_right() -> None:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(1))) as cluster:
        output = await generate(cluster, k(4), top_p=0.9, presence_penalty=0.5)
    speculation = output.summary.speculation
    assert speculation.accepted_tokens == speculation.draft_tokens > 0
    assert speculation.draft_invalid_rounds == 0


def another_token(token: common_pb2.DraftToken) -> None:
    token.token_id = (token.token_id + 1) % SIZE


def invented_law(token: common_pb2.DraftToken) -> None:
    token.distribution.token_ids.extend([0, 0, 2**32 - 1])


@pytest.mark.parametrize(
    ("lie", "helps"),
    [(another_token, False), (invented_law, True)],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_lies_of_a_draft_change_nothing(lie: Tamper, helps: bool) -> None:
    async with tampered_cluster(lie) as cluster:
        alone, output = await generate(cluster, OFF), await generate(cluster, k(3))
    assert output.token_ids == alone.token_ids
    assert (output.summary.speculation.accepted_tokens > 0) is helps
    assert output.summary.speculation.draft_invalid_rounds == 0


@pytest.mark.parametrize("speculation", [OFF, k(0), k(1), k(5)], ids=["off", "0", "1", "5"])
async def test_a_resumed_generation_goes_on_as_it_would_have(
    pair: Cluster, speculation: generation_pb2.SpeculationParams
) -> None:
    whole = (await generate(pair, k(3), frequency_penalty=0.3)).token_ids
    for kept in (1, 2, 17, LENGTH - 1):
        rest = await generate(pair, speculation, resumed=whole[:kept], frequency_penalty=0.3)
        assert rest.token_ids == whole[kept:]


async def test_a_seed_that_was_made_gives_the_output_again(pair: Cluster) -> None:
    request = token_request(
        PROMPT,
        max_new_tokens=LENGTH,
        sampling=common_pb2.SamplingParams(verification=COUPLED),
        speculation=k(3),
    )
    one, two = await pair.generate(request), await pair.generate(request)
    assert one.token_ids != two.token_ids
    assert one.summary.reproducible
    again = await generate(pair, k(1), seed=one.summary.seed)
    assert again.token_ids == one.token_ids


async def test_which_rule_a_request_gets(pair: Cluster) -> None:
    coupled = await generate(pair, OFF)
    assert coupled.summary.reproducible
    assert (await generate(pair, OFF, verification=COUPLED)).token_ids == coupled.token_ids
    rejection = await generate(pair, OFF, verification=REJECTION)
    assert rejection.token_ids != coupled.token_ids
    assert not rejection.summary.reproducible
    unseeded = token_request(PROMPT, max_new_tokens=LENGTH, speculation=OFF)
    assert not (await pair.generate(unseeded)).summary.reproducible


async def test_greedy_is_greedy_by_either_rule(pair: Cluster) -> None:
    outputs = [
        (await generate(pair, speculation, temperature=0.0, verification=rule)).token_ids
        for rule in (COUPLED, REJECTION)
        for speculation in (OFF, k(3))
    ]
    assert outputs == [outputs[0]] * 4


@pytest.mark.parametrize(
    ("dtype", "promised"), [("float64", True), ("float32", True), ("bfloat16", False)]
)
async def test_what_is_promised_depends_on_the_numbers(dtype: str, promised: bool) -> None:
    async with running_cluster(WorkerPlan(table(1), dtype=dtype), None) as cluster:
        assert (await generate(cluster, OFF)).summary.reproducible is promised


async def test_a_target_that_does_not_know_the_rule_is_not_asked_for_it(pair: Cluster) -> None:
    expected = await generate(pair, OFF, verification=REJECTION)
    known = pair.target.runtime.description
    features = tuple(name for name in known.features if name != "coupled")
    pair.target.runtime.description = replace(known, features=features)
    await pair.coordinator.pools.look()
    fallen_back = await generate(pair, OFF)
    assert fallen_back.token_ids == expected.token_ids
    assert not fallen_back.summary.reproducible
    with pytest.raises(aio.AioRpcError) as refusal:
        await generate(pair, OFF, verification=COUPLED)
    error = remote_error(refusal.value)
    assert error.code is StatusCode.UNIMPLEMENTED
    assert error.metadata["field"] == "sampling.verification"
