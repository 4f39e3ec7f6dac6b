"""Greedy output with a draft is the target's own, token for token, in float64."""

from __future__ import annotations

import asyncio

import pytest
import torch

from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster, token_request
from outrider.testing.tiny_models import tiny_pair
from outrider.v1 import common_pb2, generation_pb2

LENGTH = 64
AT_ONCE = 16


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("prompts", [20, pytest.param(1000, marks=pytest.mark.slow)])
async def test_every_prompt_of_a_tiny_pair_gives_the_same_tokens(prompts: int) -> None:
    target, draft = tiny_pair()
    generator = torch.Generator().manual_seed(1)
    gate = asyncio.Semaphore(AT_ONCE)

    async def compare(cluster: Cluster, number: int) -> int:
        length = int(torch.randint(1, 60, (), generator=generator))
        prompt = torch.randint(0, 128, (length,), generator=generator).tolist()
        request = token_request(
            prompt,
            max_new_tokens=LENGTH,
            sampling=common_pb2.SamplingParams(temperature=0, ignore_eos=True),
        )
        async with gate:
            request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
            alone = await cluster.generate(request)
            request.speculation.mode = generation_pb2.SPECULATION_MODE_ON
            request.speculation.draft_length = 1 + number % 8
            speculated = await cluster.generate(request)
        assert speculated.summary.speculation.draft_tokens > 0
        assert len(alone.token_ids) == LENGTH
        return int(speculated.token_ids != alone.token_ids)

    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        different = await asyncio.gather(*(compare(cluster, n) for n in range(prompts)))
    assert sum(different) == 0
