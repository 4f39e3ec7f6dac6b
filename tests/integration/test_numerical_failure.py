"""Models that give NaN: the target's ends one request, the draft's costs speed alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from grpc import StatusCode, aio
from structlog.testing import capture_logs

from outrider.rpc.status import remote_error
from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
PROMPT = [1, 2, 3]
LENGTH = 30
POISON = 7
TABLE = random_table(seed=1)
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
SPECULATING = generation_pb2.SpeculationParams(
    mode=generation_pb2.SPECULATION_MODE_ON, draft_length=3
)


def breaking_model(bad: float, *, after: int = 0) -> ScriptedModel:
    """A table model with one bad logit in sequences that begin with the poison."""

    def logits(token_ids: Sequence[int]) -> list[float]:
        row: list[float] = TABLE[token_ids[-2], token_ids[-1]].tolist()
        if token_ids[0] == POISON and len(token_ids) >= len(PROMPT) + after:
            row[4] = bad
        return row

    return ScriptedModel(logits, vocabulary_size=SIZE)


def request(
    first: int, *, speculation: generation_pb2.SpeculationParams = SPECULATING
) -> generation_pb2.GenerateRequest:
    return token_request(
        [first, *PROMPT[1:]],
        max_new_tokens=LENGTH,
        sampling=common_pb2.SamplingParams(temperature=0),
        speculation=speculation,
    )


async def test_a_draft_token_behind_which_the_target_goes_wrong_costs_nothing() -> None:
    """The target rejects it, so nobody needs to know what follows it."""

    def target_logits(token_ids: Sequence[int]) -> list[float]:
        row: list[float] = TABLE[token_ids[-2], token_ids[-1]].tolist()
        row[POISON] = -20.0
        return [math.nan] * SIZE if token_ids[-1] == POISON else row

    def draft_logits(token_ids: Sequence[int]) -> list[float]:
        return [20.0 if token_id == POISON else 0.0 for token_id in range(SIZE)]

    target = ScriptedModel(target_logits, vocabulary_size=SIZE)
    draft = ScriptedModel(draft_logits, vocabulary_size=SIZE)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        alone = await cluster.generate(request(1, speculation=OFF))
        answer = await cluster.generate(request(1))
    assert answer.token_ids == alone.token_ids
    assert answer.summary.speculation.draft_tokens > 0


@pytest.mark.parametrize("speculation", [SPECULATING, OFF], ids=["drafted", "alone"])
@pytest.mark.parametrize("after", [0, 10])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
async def test_a_target_that_gives_no_number_ends_that_request_alone(
    bad: float, after: int, speculation: generation_pb2.SpeculationParams
) -> None:
    target, draft = breaking_model(bad, after=after), TableModel(TABLE)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        expected = (await cluster.generate(request(1))).token_ids
        *others, failure = await asyncio.gather(
            *(cluster.generate(request(1)) for _ in range(3)),
            cluster.generate(request(POISON, speculation=speculation)),
            return_exceptions=True,
        )
        assert isinstance(failure, aio.AioRpcError)
        error = remote_error(failure)
        assert (error.code, error.reason) == (StatusCode.INTERNAL, "NUMERICAL_FAILURE")
        for other in others:
            assert not isinstance(other, BaseException)
            assert other.token_ids == expected
        assert (await cluster.generate(request(1))).token_ids == expected
        (replica,) = cluster.coordinator.pools.targets.all
    assert replica.failures == 0, "others were kept away from it"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
async def test_a_draft_that_gives_no_number_is_counted_and_changes_nothing(bad: float) -> None:
    target, draft = TableModel(TABLE), breaking_model(bad)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        alone = await cluster.generate(request(POISON, speculation=OFF))
        with capture_logs() as events:
            output = await cluster.generate(request(POISON))
        assert ("warning", "the model gave NaN or infinite logits") in [
            (event["log_level"], event["event"]) for event in events
        ]
        assert output.token_ids == alone.token_ids
        assert output.gapless
        speculation = output.summary.speculation
        assert speculation.draft_tokens == 0
        assert speculation.draft_missed_rounds > 0
        sound = await cluster.generate(request(1))
        assert sound.summary.speculation.accepted_tokens > 0, "others were kept away from it"
