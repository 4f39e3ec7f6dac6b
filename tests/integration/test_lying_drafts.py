"""Drafts whose tokens or laws are wrong: set aside and counted, the output undisturbed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import aio

from coordinator.calls import Peer
from outrider.testing.cluster import (
    LOOPBACK,
    Cluster,
    WorkerPlan,
    running_cluster,
)
from outrider.v1 import (
    common_pb2,
    draft_pb2,
    draft_pb2_grpc,
    generation_pb2,
)
from tests.integration.undisturbed import (
    SIZE,
    Tamper,
    alone,
    assert_undisturbed,
    request,
    table,
)


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
