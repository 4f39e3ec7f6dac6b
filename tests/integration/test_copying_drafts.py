"""Drafts that copy, as a coordinator sees them and as a client does: real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import torch
from grpc import StatusCode, aio

from draft_service.generation_text import AT_ONCE
from draft_service.kind import COPIES, draft_kind
from draft_service.proposal import CandidateCut
from outrider.drafter import Drafter
from outrider.engine.copying_model import CopyingModel
from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import (
    Cluster,
    WorkerPlan,
    running_cluster,
    start_draft,
    token_request,
)
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import DraftStream, draft_round, open_draft
from outrider.testing.tiny_models import tiny_pair
from outrider.v1 import common_pb2, draft_pb2, generation_pb2, model_pb2, model_pb2_grpc

SIZE = 8
CONTEXT = 64
SONG = [1, 2, 3, 4, 5, 6, 7]
PROMPT = [*SONG, *SONG[:3]]
COPYING = [Drafter.NGRAM, Drafter.SUFFIX, Drafter.MIXED]


def table(context: int = CONTEXT) -> TableModel:
    return TableModel(random_table(seed=2), context_length=context)


def model_for(drafter: Drafter, context: int = CONTEXT) -> Model:
    """What such a draft needs."""
    if drafter.draws:
        return table(context)
    return CopyingModel(vocabulary_size=SIZE, context_length=context)


@asynccontextmanager
async def serving(drafter: Drafter, context: int = CONTEXT) -> AsyncIterator[aio.Channel]:
    server = await start_draft(WorkerPlan(model_for(drafter, context)), drafter=drafter)
    try:
        async with open_channel(server.rpc.address) as channel:
            yield channel
    finally:
        await server.stop(0)


async def opened(channel: aio.Channel, **fields: Any) -> DraftStream:
    return await open_draft(channel, **{"derived_seed": 7, "prompt_length": 1, **fields})


async def proposal(stream: DraftStream, message: draft_pb2.DraftRequest) -> draft_pb2.Proposal:
    """The one that has tokens, or else the last."""
    answer = (await stream.ask(message)).proposal
    while not answer.tokens and not answer.done:
        answer = (await stream.read()).proposal
    return answer


@pytest.mark.parametrize("drafter", COPYING)
async def test_a_prompt_that_is_longer_than_is_indexed_in_one_go_is_copied_from_at_once(
    drafter: Drafter,
) -> None:
    prompt = [*SONG * (2 * AT_ONCE // len(SONG)), *SONG[:3]]
    async with serving(drafter, context=3 * AT_ONCE) as channel:
        stream = await opened(channel, prompt_length=len(prompt))
        length = len(prompt)
        answer = await proposal(stream, draft_round(1, prompt, until=length, copies=length + 4))
        assert [token.token_id for token in answer.tokens] == SONG[3:7]
        assert all(token.copied for token in answer.tokens)


@pytest.mark.parametrize("drafter", Drafter)
async def test_a_draft_says_how_it_comes_by_its_tokens(drafter: Drafter) -> None:
    async with serving(drafter) as channel:
        model = await model_pb2_grpc.ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest())
    assert model.drafter == drafter.value
    assert (COPIES in model.features) == (drafter is not Drafter.MODEL)


@pytest.mark.parametrize("drafter", COPYING)
async def test_copied_tokens_are_a_chain_of_point_masses(drafter: Drafter) -> None:
    async with serving(drafter) as channel:
        stream = await opened(channel)
        first = await proposal(stream, draft_round(4, PROMPT, until=len(PROMPT) + 3))
        text = [*PROMPT, *SONG[3:5]]
        more = await proposal(
            stream,
            draft_round(5, text, base=len(PROMPT), until=len(text) + 1, copies=len(text) + 3),
        )
        status = await model_pb2_grpc.ModelServiceStub(channel).GetStatus(
            model_pb2.ModelServiceGetStatusRequest()
        )
    tokens = [*first.tokens, *more.tokens]
    assert [token.token_id for token in tokens[:4]] == SONG[3:]
    assert all(token.copied for token in tokens)
    assert {token.WhichOneof("law") for token in tokens} == {"point_mass"}
    assert tokens[0].root_round == 4
    names = [token.node_id for token in tokens]
    assert [token.parent_node_id for token in tokens[1:]] == names[:-1]
    assert first.handle.length == len(PROMPT)
    assert status.copied_tokens == status.draft_tokens == len(tokens)


async def test_coupled_copies_come_without_a_law() -> None:
    coupled = common_pb2.SamplingParams(verification=common_pb2.VERIFICATION_COUPLED)
    async with serving(Drafter.MIXED) as channel:
        stream = await opened(channel, sampling=coupled)
        answer = await proposal(stream, draft_round(1, PROMPT, until=len(PROMPT) + 2))
    assert [token.copied for token in answer.tokens] == [True, True]
    assert {token.WhichOneof("law") for token in answer.tokens} == {None}


async def test_other_outputs_of_the_scope_are_copied_and_no_others() -> None:
    async with serving(Drafter.SUFFIX) as channel:
        writer = await opened(channel, cache_scope=b"a")
        await writer.ask(draft_round(1, [0, *SONG]))
        found = {}
        for seed, scope in ((8, b"a"), (9, b"b"), (7, b"a")):
            stream = await opened(channel, cache_scope=scope, derived_seed=seed)
            text = [0, *SONG[:3]]
            answer = await proposal(stream, draft_round(1, text, until=len(text) + 2))
            found[seed, scope] = [token.token_id for token in answer.tokens]
    # The last one is decided by the draws that decided the first output.
    assert found == {(8, b"a"): SONG[3:5], (9, b"b"): [], (7, b"a"): []}


@pytest.mark.parametrize("drafter", COPYING)
async def test_copies_end_at_the_context(drafter: Drafter) -> None:
    text = (SONG * 10)[: CONTEXT - 2]
    async with serving(drafter) as channel:
        stream = await opened(channel)
        answer = await proposal(stream, draft_round(1, text, until=CONTEXT - 1, copies=CONTEXT + 9))
    assert len(answer.tokens) == 2


async def test_nobody_copies_without_end() -> None:
    async with serving(Drafter.SUFFIX) as channel:
        stream = await opened(channel)
        with pytest.raises(aio.AioRpcError) as raised:
            await stream.ask(draft_round(1, PROMPT, copies=len(PROMPT) + 257))
    assert raised.value.code() is StatusCode.INVALID_ARGUMENT
    assert "copy_until_length" in (raised.value.details() or "")


async def test_lost_ids_are_asked_for() -> None:
    async with serving(Drafter.SUFFIX) as channel:
        stream = await opened(channel)
        answer = await stream.ask(draft_round(1, PROMPT, base=4, until=len(PROMPT) + 1))
        assert answer.state_lost.kept_length == 0
        other = await stream.ask(draft_round(2, PROMPT, until=len(PROMPT) + 1))
    assert len(other.proposal.tokens) == 1


async def test_a_model_in_another_process_copies_the_same() -> None:
    kind = draft_kind(CandidateCut(), Drafter.MIXED)
    build = partial(TableModel, random_table(seed=2), context_length=CONTEXT)
    server = await start_worker_process(kind, build)
    message = draft_round(1, PROMPT, until=len(PROMPT) + 3, copies=len(PROMPT) + 6)
    async with open_channel(server.rpc.address) as channel:
        there = await proposal(await opened(channel), message)
    await server.stop(0)
    async with serving(Drafter.MIXED) as channel:
        here = await proposal(await opened(channel), message)
    assert there.tokens == here.tokens
    assert here.tokens[0].copied


def repetitive(likeness: float, *, seed: int) -> ScriptedModel:
    """Goes round in circles, now and then another way: the law depends on the last two ids."""
    table = 2.0 * random_table(seed=1) + (1.0 - likeness) * 2.0 * random_table(seed=seed)
    return TableModel(table)


@pytest.mark.parametrize("drafter", COPYING)
@pytest.mark.parametrize("sampling", ["greedy", "coupled"])
async def test_an_output_that_depends_on_no_draft_stays_what_it_is(
    drafter: Drafter, sampling: str
) -> None:
    async def compare(cluster: Cluster, number: int) -> int:
        params = common_pb2.SamplingParams(seed=number, ignore_eos=True)
        params.verification = common_pb2.VERIFICATION_COUPLED
        if sampling == "greedy":
            params = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)
        prompt = [number % SIZE, number // SIZE, *SONG]
        request = token_request(prompt, max_new_tokens=40, sampling=params)
        request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
        alone = await cluster.generate(request)
        request.speculation.mode = generation_pb2.SPECULATION_MODE_ON
        request.speculation.draft_length = 1 + number % 5
        speculated = await cluster.generate(request)
        assert speculated.token_ids == alone.token_ids
        return speculated.summary.speculation.accepted_copied_tokens

    draft = WorkerPlan(repetitive(0.5, seed=3))
    target = WorkerPlan(repetitive(1.0, seed=3))
    async with running_cluster(target, draft, drafter=drafter) as cluster:
        accepted = await asyncio.gather(*(compare(cluster, number) for number in range(6)))
    assert sum(accepted) > 10


async def test_greedy_output_of_a_tiny_pair_is_the_targets_own() -> None:
    target, draft = tiny_pair()
    generator = torch.Generator().manual_seed(4)
    sampling = common_pb2.SamplingParams(temperature=0, ignore_eos=True)
    plans = WorkerPlan(target), WorkerPlan(draft)
    async with running_cluster(*plans, drafter=Drafter.MIXED) as cluster:
        for number in range(4):
            song = torch.randint(0, 128, (8,), generator=generator).tolist()
            request = token_request([*song * 3], max_new_tokens=48, sampling=sampling)
            request.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
            alone = await cluster.generate(request)
            request.speculation.mode = generation_pb2.SPECULATION_MODE_ON
            request.speculation.draft_length = 2 + number
            assert (await cluster.generate(request)).token_ids == alone.token_ids
