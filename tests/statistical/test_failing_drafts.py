"""A draft that fails after a drawn token must not take that token back: that would be a peek."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from scipy.stats import chisquare

from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import ScriptedModel
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
POISON = 0
REQUESTS = 1200


async def test_a_draft_that_gives_nan_after_one_token_changes_no_law() -> None:
    def poisoned(token_ids: Sequence[int]) -> list[float]:
        return [math.nan if token_ids[-1] == POISON else 0.0] * SIZE

    target = ScriptedModel(lambda _: [0.0] * SIZE, vocabulary_size=SIZE)
    draft = ScriptedModel(poisoned, vocabulary_size=SIZE)
    counts = [0] * SIZE
    gate = asyncio.Semaphore(16)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:

        async def second_token(seed: int) -> int:
            request = token_request(
                [1, 2],
                max_new_tokens=4,
                sampling=common_pb2.SamplingParams(
                    seed=seed, verification=common_pb2.VERIFICATION_REJECTION
                ),
                speculation=generation_pb2.SpeculationParams(draft_length=2),
            )
            async with gate:
                return (await cluster.generate(request)).token_ids[1]

        for token_id in await asyncio.gather(*(second_token(n) for n in range(REQUESTS))):
            counts[token_id] += 1
    # Fixed seeds: an alarm is a fault, not chance. The peek gives the poison an eighth of its law.
    assert chisquare(counts).pvalue > 1e-3
