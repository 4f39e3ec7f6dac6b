"""Rounds without draft tokens leave the draft's state as good as ever."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from random import Random

import pytest

from coordinator.draft_plan import DraftPlan, Situation, SpeculationTerms
from coordinator.policy import GenerationPolicy
from outrider.testing.cluster import WorkerPlan, running_cluster
from outrider.testing.exactness.random_policy import Chances, RandomPolicy
from outrider.testing.exactness.recorded_policy import RecordedPool
from outrider.testing.tiny_models import tiny_model
from tests.integration.coupled_requests import seeded, way

LENGTH = 60
PROMPT = [1, 2, 3]
PATIENT = Chances(patience_s=(30.0,))


class InTurns(RandomPolicy):
    """Draft lengths take turns; every token is waited for."""

    def __init__(self, lengths: Sequence[int], *, ahead: int) -> None:
        super().__init__(PATIENT, Random(0))
        self._lengths = cycle(lengths)
        self._ahead = ahead

    def plan(self, situation: Situation) -> DraftPlan:
        """The next in turn; where it is 0 the draft is left alone."""
        super().plan(situation)
        assert situation.draft_ready
        length = min(next(self._lengths), situation.room)
        return DraftPlan(length, ahead=min(self._ahead, situation.room - length) if length else 0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("lengths", [(3, 0, 0, 3), (1, 0), (5, 0, 0, 0, 0, 0, 2)], ids=str)
async def test_a_draft_that_is_the_target_is_always_right(
    lengths: Sequence[int], ahead: int, temperature: float
) -> None:
    def policy(terms: SpeculationTerms) -> GenerationPolicy:
        return InTurns(lengths, ahead=ahead)

    recorded = RecordedPool(policy)
    async with running_cluster(WorkerPlan(tiny_model()), WorkerPlan(tiny_model())) as cluster:
        cluster.coordinator.pools.policy = recorded
        request = seeded(PROMPT, way(), length=LENGTH, temperature=temperature)
        output = await cluster.generate(request)
    assert len(output.token_ids) == LENGTH
    speculation = output.summary.speculation
    assert speculation.accepted_tokens == speculation.draft_tokens > 0
    assert speculation.draft_missed_rounds == 0
    drafted = [facts.drafted for facts in recorded.take(speculation)]
    assert set(lengths) <= set(drafted)
