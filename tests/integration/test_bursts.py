"""Two thousand generations asked for at the same moment: none fails."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.v1 import common_pb2
from tests.integration.undisturbed import table

BURST = 2000


def plan() -> WorkerPlan:
    """A worker with a handle for each of them."""
    return WorkerPlan(table(), max_handles=2 * BURST)


async def burst(draft: WorkerPlan | None, *, tokens: int) -> None:
    """All at once, each of so many tokens."""
    sampling = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)
    request = token_request([1, 2], max_new_tokens=tokens, sampling=sampling)
    async with running_cluster(plan(), draft, max_generations=BURST) as cluster:
        answers = await asyncio.gather(*(cluster.generate(request) for _ in range(BURST)))
    ((token_ids, count),) = Counter(tuple(answer.token_ids) for answer in answers).items()
    assert (len(token_ids), count) == (tokens, BURST)


async def test_none_of_two_thousand_fails() -> None:
    await burst(None, tokens=1)


@pytest.mark.slow
async def test_none_fails_that_opens_a_draft_too() -> None:
    await burst(plan(), tokens=8)
