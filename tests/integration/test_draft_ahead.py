"""Draft-ahead through real services: what is drafted behind a verification is used, and no round
can be told from the output."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.draft_plan import DraftPlan, SpeculationTerms
from outrider.testing.cluster import Cluster, Output, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import common_pb2, generation_pb2, target_pb2
from target_service.servicer import VerifyHandler
from tests.integration.draft_sessions import ToldPolicy

PROMPT = [1, 2, 3]
LENGTH = 60
GREEDY = common_pb2.SamplingParams(temperature=0)
COUPLED = common_pb2.SamplingParams(seed=7)
SAMPLED = common_pb2.SamplingParams(seed=7, verification=common_pb2.VERIFICATION_REJECTION)
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)


def table(seed: int = 1, **times: Any) -> TableModel:
    return TableModel(random_table(seed=seed), **times)


def request(
    sampling: common_pb2.SamplingParams = GREEDY, **speculation: Any
) -> generation_pb2.GenerateRequest:
    return token_request(
        PROMPT,
        max_new_tokens=LENGTH,
        sampling=sampling,
        speculation=generation_pb2.SpeculationParams(**speculation),
    )


@asynccontextmanager
async def cluster_of(
    target: TableModel, draft: TableModel, policy: ToldPolicy | None = None
) -> AsyncIterator[Cluster]:
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        if policy is not None:

            def told(terms: SpeculationTerms) -> ToldPolicy:
                return policy

            cluster.coordinator.pools.policy.generation = told  # type: ignore[method-assign]
        yield cluster


async def alone(cluster: Cluster, sampling: common_pb2.SamplingParams = GREEDY) -> list[int]:
    asked = request(sampling)
    asked.speculation.CopyFrom(OFF)
    return (await cluster.generate(asked)).token_ids


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[target_pb2.VerifyRound]:
    """The Rounds that reach a target."""
    seen: list[target_pb2.VerifyRound] = []
    original = VerifyHandler.round_of

    def noted(
        self: VerifyHandler, message: target_pb2.VerifyRequest
    ) -> target_pb2.VerifyRound | None:
        seen.append(message.round)
        return original(self, message)

    monkeypatch.setattr(VerifyHandler, "round_of", noted)
    return seen


@pytest.mark.parametrize("sampling", [GREEDY, COUPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("ahead", [0, 6])
async def test_a_draft_like_the_target_is_always_right_whatever_lengths_follow(
    sampling: common_pb2.SamplingParams, ahead: int
) -> None:
    lengths = (3, 0, 0, 3, 5, 1)
    policy = ToldPolicy(*[DraftPlan(k, ahead=ahead if k else 0) for k in lengths * LENGTH])
    async with cluster_of(table(), table(), policy) as cluster:
        output = await cluster.generate(request(sampling))
        expected = await alone(cluster, sampling)
    speculation = output.summary.speculation
    assert output.token_ids == expected
    assert speculation.accepted_tokens == speculation.draft_tokens > LENGTH // 2
    assert speculation.draft_invalid_rounds == speculation.replays == 0
    assert len([k for k in speculation.rounds_by_draft_length if k]) >= 3
    assert bool(policy.foreseen) == bool(ahead)
    assert all(facts.matched for facts in policy.foreseen)


async def test_rounds_find_their_draft_tokens_waiting() -> None:
    async with cluster_of(table(step_time_s=0.02), table(step_time_s=0.001)) as cluster:
        ahead = await cluster.generate(request(draft_length=3))
        waiting = await cluster.generate(request(draft_length=3, draft_ahead=False))
    assert ahead.token_ids == waiting.token_ids
    first, other = ahead.summary.speculation, waiting.summary.speculation
    assert first.rounds == other.rounds
    assert first.ready_rounds > first.drafted_rounds // 2
    assert other.ready_rounds == 0


@pytest.mark.parametrize("draft_ahead", [False, True], ids=["synchronous", "ahead"])
@pytest.mark.parametrize(
    "sampling", [GREEDY, COUPLED, SAMPLED], ids=["greedy", "coupled", "rejection"]
)
async def test_counts_add_up(sampling: common_pb2.SamplingParams, draft_ahead: bool) -> None:
    target, draft = table(step_time_s=0.002), table(2, step_time_s=0.0005)
    async with cluster_of(target, draft) as cluster:
        asked = request(sampling, draft_length=3, draft_ahead=draft_ahead, branches=4)
        output = await cluster.generate(asked)
    told = output.summary.speculation
    by_length = dict(enumerate(told.rounds_by_draft_length))
    assert sum(by_length.values()) == told.rounds
    assert told.rounds - by_length[0] == told.drafted_rounds
    assert sum(k * rounds for k, rounds in by_length.items()) == told.draft_tokens
    assert sum(told.accepted_per_position) == told.accepted_tokens
    assert told.foreseen_rounds <= told.drafted_rounds
    assert told.ready_rounds <= told.drafted_rounds
    if not draft_ahead:
        assert told.ready_rounds == told.foreseen_rounds == told.dropped_tokens == 0
    if sampling is SAMPLED and draft_ahead:
        assert told.dropped_tokens > 0
    # What nobody accounts for is the hops'; what was drafted behind a verification is on no path.
    known_ms = told.verify_ms + told.queue_ms + told.hop_ms
    assert known_ms <= told.decode_ms + 0.1
    assert told.decode_ms <= known_ms + told.draft_ms + 0.1
    assert told.draft_wait_ms <= told.decode_ms


async def test_no_bonus_is_drawn_where_a_draft_token_lies_ready(
    rounds: list[target_pb2.VerifyRound],
) -> None:
    async with cluster_of(table(step_time_s=0.005), table()) as cluster:
        await cluster.generate(request(SAMPLED, draft_length=2))
    drafted = [message for message in rounds if message.draft_tokens]
    assert any(not message.want_bonus for message in drafted)
    # The last ones have nothing behind them.
    assert drafted[-1].want_bonus or len(drafted[-1].draft_tokens) == 2


@pytest.mark.parametrize("sampling", [GREEDY, COUPLED], ids=["greedy", "coupled"])
async def test_a_bonus_that_does_not_depend_on_the_draft_is_always_taken(
    sampling: common_pb2.SamplingParams, rounds: list[target_pb2.VerifyRound]
) -> None:
    async with cluster_of(table(step_time_s=0.005), table()) as cluster:
        await cluster.generate(request(sampling, draft_length=2))
    assert all(message.want_bonus for message in rounds)


async def test_a_draft_that_is_not_wanted_has_nothing_to_do() -> None:
    draft = table()
    policy = ToldPolicy(DraftPlan(0, run=8))
    async with cluster_of(table(), draft, policy) as cluster:
        output = await cluster.generate(request())
        expected = await alone(cluster)
    assert output.token_ids == expected
    assert draft.forwards == 0
    assert output.summary.speculation.draft_missed_rounds == 0


async def test_a_draft_that_is_only_compared_delays_nothing() -> None:
    policy = ToldPolicy(DraftPlan(0, ahead=16, run=16))
    async with cluster_of(table(step_time_s=0.004), table(), policy) as cluster:
        output = await cluster.generate(request())
        expected = await alone(cluster)
    speculation = output.summary.speculation
    assert output.token_ids == expected
    assert speculation.draft_tokens == speculation.drafted_rounds == 0
    assert speculation.draft_wait_ms == 0.0
    assert len(policy.foreseen) > LENGTH // 2
    assert all(facts.matched for facts in policy.foreseen)
    assert sum(facts.in_run for facts in policy.rounds) > LENGTH // 2


@pytest.mark.parametrize("sampling", [GREEDY, COUPLED], ids=["greedy", "coupled"])
async def test_nothing_is_lost_between_runs_and_rounds(
    sampling: common_pb2.SamplingParams, rounds: list[target_pb2.VerifyRound]
) -> None:
    plans = [DraftPlan(0, run=6), DraftPlan(2, ahead=2), DraftPlan(3), DraftPlan(0, ahead=4, run=9)]
    policy = ToldPolicy(*plans * LENGTH)
    async with cluster_of(table(step_time_s=0.002), table(2), policy) as cluster:
        output = await cluster.generate(request(sampling))
        asked = len(rounds)
        expected = await alone(cluster, sampling)
    assert output.token_ids == expected
    assert output.gapless
    drafted = [message for message in rounds[:asked] if message.draft_tokens]
    running = [message for message in rounds[:asked] if message.decode_tokens]
    assert len(drafted) >= 3
    assert len(running) >= 3
    # All that the target had decoded alone was used.
    assert output.summary.speculation.rounds == len(policy.rounds) + 1


async def test_why_the_draft_length_changed_is_told() -> None:
    change = generation_pb2.DraftLengthChange(offset=3, draft_length=0, reason="LOAD 0.2")
    policy = ToldPolicy(DraftPlan(2))
    policy.changes.append(change)
    async with cluster_of(table(), table(), policy) as cluster:
        output = await cluster.generate(request())
    assert list(output.summary.speculation.changes) == [change]


async def test_the_policy_is_told_what_it_goes_by() -> None:
    policy = ToldPolicy(DraftPlan(3, ahead=3))
    target, draft = table(step_time_s=0.01), table(step_time_s=0.002)
    async with cluster_of(target, draft, policy) as cluster:
        output = await cluster.generate(request())
    speculation = output.summary.speculation
    assert len(policy.rounds) == speculation.rounds - 1
    assert sum(facts.drafted for facts in policy.rounds) == speculation.draft_tokens
    assert sum(facts.accepted for facts in policy.rounds) == speculation.accepted_tokens
    assert all(0.009 < facts.model_s < facts.verify_s for facts in policy.rounds)
    proposals = [facts for facts in policy.proposals if facts.tokens]
    assert sum(facts.tokens for facts in proposals) >= speculation.accepted_tokens
    assert all(facts.model_s >= 0.0019 * facts.steps for facts in proposals)
    trips = [facts.round_trip_s for facts in proposals if facts.round_trip_s is not None]
    assert trips
    assert all(0.0 <= trip < 0.2 for trip in trips)


def outputs_equal(outputs: list[Output]) -> bool:
    return all(output.token_ids == outputs[0].token_ids for output in outputs)


async def test_the_draft_does_not_show_in_a_coupled_output() -> None:
    async with cluster_of(table(), table(2)) as cluster:
        outputs = [
            await cluster.generate(
                request(COUPLED, draft_length=k, draft_ahead=ahead, branches=branches)
            )
            for k in (1, 4)
            for ahead in (False, True)
            for branches in (0, 4)
        ]
        expected = await alone(cluster, COUPLED)
    assert outputs_equal(outputs)
    assert outputs[0].token_ids == expected
