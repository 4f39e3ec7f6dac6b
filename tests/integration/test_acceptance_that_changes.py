"""Speculation is given up while drafts are wrong, and comes back when they are right again."""

from __future__ import annotations

import pytest

from outrider.testing.cluster import Output, WorkerPlan, running_cluster, token_request
from outrider.testing.emulated import PROMPT_TOKENS, Agreement, emulated_draft, emulated_target
from outrider.v1 import common_pb2, generation_pb2

STEP_S, DRAFT_STEP_S = 0.02, 0.002
SINCE, UNTIL = 128, 256
LENGTH = 1000


@pytest.mark.slow
async def test_k_falls_to_nothing_and_comes_back() -> None:
    """Nine of ten draft tokens are right, then one of twenty, then nine of ten again."""
    agreement = Agreement(acceptance=0.9, meanwhile=0.05, since=SINCE, until=UNTIL)
    request = token_request(
        agreement.prompt(1),
        max_new_tokens=LENGTH,
        sampling=common_pb2.SamplingParams(temperature=0),
        speculation=generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_AUTO),
    )
    async with running_cluster(
        WorkerPlan(emulated_target(step_time_s=STEP_S)),
        WorkerPlan(emulated_draft(step_time_s=DRAFT_STEP_S)),
    ) as cluster:
        output = await cluster.generate(request)
    since, until = SINCE - PROMPT_TOKENS, UNTIL - PROMPT_TOKENS
    changes = output.summary.speculation.changes
    assert tokens_of_a_chunk(output, 0, since) > 1.5
    stops = [one.offset for one in changes if one.offset > since and one.draft_length == 0]
    assert stops, changes
    assert stops[0] < until
    # But for a probe now and then.
    assert tokens_of_a_chunk(output, stops[0], until) < 1.1
    returns = [one.offset for one in changes if one.offset >= until and one.draft_length > 0]
    assert returns, changes
    assert returns[0] < LENGTH - 100
    assert tokens_of_a_chunk(output, returns[0], LENGTH) > 1.5


def tokens_of_a_chunk(output: Output, since: int, until: int) -> float:
    """How many output tokens were decided together, on average, between two offsets."""
    chunks = [chunk for chunk in output.chunks if since <= chunk.offset < until]
    return sum(len(chunk.token_ids) for chunk in chunks) / len(chunks)
