"""A draft cannot fail a request: absent, slow, hanging, dying, lying, it only costs speed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import aio

from coordinator.calls import Peer
from coordinator.main import CoordinatorServer
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import (
    LOOPBACK,
    Cluster,
    Output,
    WorkerPlan,
    running_cluster,
    start_draft,
    start_target,
    token_request,
)
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import (
    common_pb2,
    draft_pb2,
    draft_pb2_grpc,
    generation_pb2,
)

PROMPT = [1, 2, 3]
SIZE = 8
LENGTH = 60


def table(seed: int = 1, **times: float) -> TableModel:
    return TableModel(random_table(seed=seed), **times)


def request(**fields: Any) -> generation_pb2.GenerateRequest:
    fields.setdefault("sampling", common_pb2.SamplingParams(temperature=0))
    fields.setdefault("speculation", generation_pb2.SpeculationParams(draft_length=3))
    return token_request(PROMPT, max_new_tokens=LENGTH, **fields)


async def alone() -> list[int]:
    async with running_cluster(WorkerPlan(table()), None) as cluster:
        return (await cluster.generate(request())).token_ids


def assert_undisturbed(output: Output, expected: list[int]) -> None:
    assert output.token_ids == expected
    assert output.gapless
    assert output.summary.finish_reason == generation_pb2.FINISH_REASON_LENGTH


Tamper = Callable[[common_pb2.DraftToken], None]


class TamperedDraft:
    """Stands between coordinator and a real draft and changes each token of its proposals."""

    def __init__(self, address: str, tamper: Tamper) -> None:
        self._channel = aio.insecure_channel(address)
        self._tamper = tamper

    async def Draft(  # noqa: N802
        self, requests: AsyncIterator[draft_pb2.DraftRequest], context: Any
    ) -> AsyncIterator[draft_pb2.DraftResponse]:
        call = draft_pb2_grpc.DraftServiceStub(self._channel).Draft(requests)
        async for response in call:
            for token in response.proposal.tokens:
                self._tamper(token)
            yield response


@asynccontextmanager
async def tampered_cluster(tamper: Tamper) -> AsyncIterator[Cluster]:
    """Pairs with an honest draft, then streams through a draft that lies."""
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        assert cluster.draft is not None
        server = aio.server()
        draft_pb2_grpc.add_DraftServiceServicer_to_server(
            TamperedDraft(cluster.draft.rpc.address, tamper),  # type: ignore[arg-type]
            server,
        )
        port = server.add_insecure_port(LOOPBACK)
        await server.start()
        channel = aio.insecure_channel(f"127.0.0.1:{port}")
        peer = Peer(channel, cluster.draft.runtime.description.replica_id)
        cluster.coordinator.pools.draft_peer = lambda: peer  # type: ignore[method-assign]
        try:
            yield cluster
        finally:
            await channel.close()
            await server.stop(None)


def missing_law(token: common_pb2.DraftToken) -> None:
    token.ClearField("law")


def duplicate_ids(token: common_pb2.DraftToken) -> None:
    law = token.distribution
    law.token_ids[:] = [token.token_id] * len(law.token_ids)


def zero_weights(token: common_pb2.DraftToken) -> None:
    token.distribution.weights[:] = [0] * len(token.distribution.weights)


def huge_weights(token: common_pb2.DraftToken) -> None:
    token.distribution.weights[0] = 2**32 - 1


def uneven_lengths(token: common_pb2.DraftToken) -> None:
    token.distribution.weights.append(1)


def no_candidates(token: common_pb2.DraftToken) -> None:
    token.distribution.CopyFrom(common_pb2.Distribution())


def sample_not_listed(token: common_pb2.DraftToken) -> None:
    law = token.distribution
    keep = [i for i, token_id in enumerate(law.token_ids) if token_id != token.token_id]
    ids, weights = [law.token_ids[i] for i in keep], [law.weights[i] for i in keep]
    law.token_ids[:], law.weights[:] = ids, weights


def foreign_candidate(token: common_pb2.DraftToken) -> None:
    token.distribution.token_ids.append(SIZE)
    token.distribution.weights.append(1)


def foreign_token(token: common_pb2.DraftToken) -> None:
    token.token_id = 2**32 - 1


def another_token(token: common_pb2.DraftToken) -> None:
    ids = token.distribution.token_ids
    token.token_id = ids[(list(ids).index(token.token_id) + 1) % len(ids)]


def too_many_candidates(token: common_pb2.DraftToken) -> None:
    token.distribution.token_ids.extend(range(300))
    token.distribution.weights.extend([1] * 300)


LIES = [
    missing_law,
    duplicate_ids,
    zero_weights,
    huge_weights,
    uneven_lengths,
    no_candidates,
    sample_not_listed,
    foreign_candidate,
    foreign_token,
    another_token,
    too_many_candidates,
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_a_lie_about_a_token_makes_rounds_of_plain_decoding(lie: Tamper) -> None:
    sampled = request(sampling=common_pb2.SamplingParams(seed=3))
    off = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
    async with tampered_cluster(lie) as cluster:
        output = await cluster.generate(sampled)
        sampled.speculation.CopyFrom(off)
        expected = (await cluster.generate(sampled)).token_ids
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    assert_undisturbed(output, expected)
    speculation = output.summary.speculation
    assert speculation.draft_invalid_rounds > 0
    assert speculation.draft_tokens == speculation.accepted_tokens == 0
    assert status.targets[0].status.draft_invalid_rounds == speculation.draft_invalid_rounds


async def test_tokens_that_hang_nowhere_are_not_used() -> None:
    def stray(token: common_pb2.DraftToken) -> None:
        token.root_round = 99

    async with tampered_cluster(stray) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_tokens == 0


async def test_guesses_are_never_verified() -> None:
    def guess(token: common_pb2.DraftToken) -> None:
        token.guess = True

    async with tampered_cluster(guess) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_tokens == 0


async def test_a_draft_that_is_not_there_costs_nothing() -> None:
    async with running_cluster(WorkerPlan(table()), None) as cluster:
        settings = CoordinatorSettings(
            listen=LOOPBACK,
            target_address=cluster.target.rpc.address,
            draft_address="127.0.0.1:9",
        )
        coordinator = CoordinatorServer(settings)
        await coordinator.start()
        async with Cluster(coordinator, cluster.target, None) as lonely:
            await coordinator.become_ready()
            output = await lonely.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_missed_rounds > 0


async def test_a_hanging_draft_costs_one_deadline() -> None:
    hanging = table(step_time_s=3.0)
    async with running_cluster(
        WorkerPlan(table()), WorkerPlan(hanging), draft_timeout_ms=100
    ) as cluster:
        output = await asyncio.wait_for(cluster.generate(request()), 10)
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_missed_rounds == LENGTH - 2


async def test_a_slow_draft_is_used_when_it_answers() -> None:
    slow = table(step_time_s=0.02)
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.01)), WorkerPlan(slow), draft_timeout_ms=30
    ) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    speculation = output.summary.speculation
    assert speculation.draft_missed_rounds > 0
    assert speculation.stale_proposals > 0


async def test_a_draft_that_stops_and_comes_back_is_used_again() -> None:
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.02)), WorkerPlan(table(step_time_s=0.001))
    ) as cluster:
        draft = cluster.draft
        assert draft is not None
        received: list[int] = []
        accepted_before = 0
        long_request = request()
        long_request.max_new_tokens = 400
        async for response in cluster.stub.Generate(long_request):
            if response.HasField("summary"):
                speculation = response.summary.speculation
                break
            received.extend(response.chunk.token_ids)
            if len(received) > 30 and draft is cluster.draft:
                accepted_before = len(received)
                await draft.stop(None)
                cluster.draft = await start_draft(
                    WorkerPlan(table(step_time_s=0.001), address=draft.rpc.address)
                )
        long_request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
        expected = (await cluster.generate(long_request)).token_ids
    assert received == expected
    assert accepted_before
    assert speculation.draft_missed_rounds > 0
    # More than what the first draft can have given: the second was used too.
    assert speculation.accepted_tokens > accepted_before


async def test_an_untrusted_draft_is_verified_by_the_point_mass_rule() -> None:
    async with running_cluster(
        WorkerPlan(table()), WorkerPlan(table()), draft_trust="untrusted"
    ) as cluster:
        sampled = request(sampling=common_pb2.SamplingParams(seed=5))
        output = await cluster.generate(sampled)
    speculation = output.summary.speculation
    assert len(output.token_ids) == LENGTH
    assert 0 < speculation.accepted_tokens < speculation.draft_tokens
    assert speculation.draft_invalid_rounds == 0


async def test_a_target_that_restarts_serves_the_request_sent_again() -> None:
    async with running_cluster(
        WorkerPlan(table(step_time_s=0.005)), WorkerPlan(table())
    ) as cluster:
        received: list[int] = []
        stopped = False
        with pytest.raises(aio.AioRpcError) as failure:
            async for response in cluster.stub.Generate(request()):
                received.extend(response.chunk.token_ids)
                if len(received) > 10 and not stopped:
                    stopped = True
                    await cluster.target.stop(None)
        assert failure.value.code().name == "UNAVAILABLE"
        cluster.target = await start_target(WorkerPlan(table(), address=cluster.target.rpc.address))
        for _ in range(100):
            try:
                rest = await cluster.generate(request(output_token_ids=received))
                break
            except aio.AioRpcError as error:
                assert error.code().name == "UNAVAILABLE"
                await asyncio.sleep(0.1)
    assert received + rest.token_ids == await alone()
    assert rest.chunks[0].offset == len(received)


async def test_a_cancelled_draft_call_costs_the_round_its_drafts() -> None:
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        received: list[int] = []
        cancelled = False
        async for response in cluster.stub.Generate(request()):
            if response.HasField("summary"):
                speculation = response.summary.speculation
                break
            received.extend(response.chunk.token_ids)
            if len(received) > 10 and not cancelled:
                cancelled = True
                for task in asyncio.all_tasks():
                    if "DraftSession._exchange" in repr(task.get_coro()):
                        task.cancel()
                await cluster.coordinator.pools.draft.channel.close()  # type: ignore[union-attr]
    assert received == await alone()
    assert cancelled
    assert speculation.draft_missed_rounds > 0
