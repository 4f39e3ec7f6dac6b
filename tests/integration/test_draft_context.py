"""Generations that grow beyond what their draft can read (FAULTS H5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from draft_service.servicer import DraftServicer
from outrider.testing.cluster import WorkerPlan
from outrider.testing.pools import running_pools
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import draft_pb2
from tests.integration.undisturbed import LENGTH, PROMPT, alone, assert_undisturbed, request, table

CONTEXT = 30


@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "in turns"])
async def test_nothing_is_asked_beyond_the_edge(
    monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    rounds: list[draft_pb2.DraftRound] = []
    serve = DraftServicer.Draft

    async def recorded(self: Any, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async def noted() -> AsyncIterator[draft_pb2.DraftRequest]:
            async for one in requests:
                if one.HasField("round"):
                    rounds.append(one.round)
                yield one

        async for answer in serve(self, noted(), context):
            yield answer

    expected = await alone()
    draft = TableModel(random_table(seed=1), context_length=CONTEXT)
    asked = request()
    asked.speculation.draft_ahead = ahead
    monkeypatch.setattr(DraftServicer, "Draft", recorded)
    async with running_pools([WorkerPlan(table())], [WorkerPlan(draft)]) as cluster:
        output = await cluster.generate(asked)
        replica = cluster.replica(cluster.drafts[0])
        assert replica.failures == 0
    assert_undisturbed(output, expected)
    speculation = output.summary.speculation
    assert speculation.accepted_tokens > (CONTEXT - len(PROMPT)) // 2
    assert speculation.draft_invalid_rounds == 0
    assert speculation.draft_moves == 0
    assert rounds
    for one in rounds:
        assert one.base_length + len(one.committed_token_ids) <= CONTEXT < len(PROMPT) + LENGTH
        assert one.draft_until_length <= CONTEXT
