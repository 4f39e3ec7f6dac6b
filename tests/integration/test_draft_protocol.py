"""The draft's stream as the contract states it: real gRPC, message by message."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode, aio

from outrider.draft_law import MAX_CANDIDATES, MAX_WEIGHT, CutLaw
from outrider.engine.model import Model
from outrider.prefix import TokenPrefix
from outrider.randomness import draw_word
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_draft
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import DraftStream, draft_round, open_draft
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, draft_pb2, model_pb2, model_pb2_grpc

SIZE = 8
SEED = 77
PROMPT = [1, 2, 3]


def table() -> TableModel:
    return TableModel(random_table(seed=2), context_length=64)


def tiny() -> Model:
    return tiny_model(vocabulary_size=SIZE, context_length=64)


@asynccontextmanager
async def serving(model: Model, **plan: Any) -> AsyncIterator[aio.Channel]:
    server = await start_draft(WorkerPlan(model, **plan))
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def opened(channel: aio.Channel, **fields: Any) -> DraftStream:
    return await open_draft(
        channel, **{"derived_seed": SEED, "prompt_length": len(PROMPT), **fields}
    )


def proposal(response: draft_pb2.DraftResponse) -> draft_pb2.Proposal:
    assert response.HasField("proposal"), response
    return response.proposal


def content(answer: draft_pb2.Proposal) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Tokens and laws, whatever they are named."""
    return [
        (token.token_id, tuple(token.distribution.token_ids), tuple(token.distribution.weights))
        for token in answer.tokens
    ]


async def refusal(stream: DraftStream, message: draft_pb2.DraftRequest | None = None) -> StatusCode:
    try:
        if message is not None:
            await stream.send(message)
        answer = await stream.read()
    except aio.AioRpcError as error:
        return error.code()
    raise AssertionError(answer)


@pytest.mark.parametrize("make", [table, tiny])
async def test_each_token_is_a_draw_from_its_law(make: Callable[[], Model]) -> None:
    async with serving(make()) as channel:
        stream = await opened(channel)
        answer = proposal(await stream.ask(draft_round(1, PROMPT, until=20)))
    prefix = TokenPrefix(PROMPT)
    assert len(answer.tokens) == 17
    for token in answer.tokens:
        law = CutLaw(tuple(token.distribution.token_ids), tuple(token.distribution.weights))
        assert 1 <= len(law.token_ids) == len(law.weights) <= MAX_CANDIDATES
        assert len(set(law.token_ids)) == len(law.token_ids)
        assert max(law.token_ids) < SIZE
        assert min(law.weights) >= 1
        assert max(law.weights) <= MAX_WEIGHT
        word = draw_word(SEED, position=len(prefix), digest=prefix.digest(len(prefix)))
        assert law.draw(word) == token.token_id
        prefix.extend([token.token_id])


async def test_tokens_are_a_chain_with_names_of_their_own() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        first = proposal(await stream.ask(draft_round(4, PROMPT, until=7)))
        again = proposal(await stream.ask(draft_round(9, PROMPT, until=7)))
        more = proposal(await stream.ask(draft_round(10, PROMPT, until=9)))
    assert not again.tokens
    assert first.done
    assert again.done
    assert more.done
    tokens = [*first.tokens, *more.tokens]
    assert [len(first.tokens), len(more.tokens)] == [4, 2]
    names = [token.node_id for token in tokens]
    assert len(set(names)) == len(names)
    assert min(names) >= 1
    assert tokens[0].WhichOneof("parent") == "root_round"
    assert tokens[0].root_round == 4
    for before, token in itertools.pairwise(tokens):
        assert token.WhichOneof("parent") == "parent_node_id"
        assert token.parent_node_id == before.node_id


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": draft_pb2.DRAFT_MODE_GREEDY, "derived_seed": None},
        {"sampling": common_pb2.SamplingParams(temperature=0)},
    ],
    ids=["mode", "sampling"],
)
async def test_greedy_drafts_are_the_most_likely_tokens(fields: dict[str, Any]) -> None:
    model = table()
    async with serving(model) as channel:
        stream = await opened(channel, **fields)
        answer = proposal(await stream.ask(draft_round(1, PROMPT, until=12)))
    token_ids = list(PROMPT)
    assert len(answer.tokens) == 9
    for token in answer.tokens:
        assert token.WhichOneof("law") == "point_mass"
        assert token.token_id == int(model.table[token_ids[-2], token_ids[-1]].argmax())
        token_ids.append(token.token_id)


@pytest.mark.parametrize("mode", [draft_pb2.DRAFT_MODE_SAMPLED, draft_pb2.DRAFT_MODE_GREEDY])
async def test_ids_that_the_target_lacks_are_never_proposed(
    mode: draft_pb2.DraftMode.ValueType,
) -> None:
    async with serving(table()) as channel:
        for size in (3, 5):
            stream = await opened(channel, vocabulary_size=size, mode=mode)
            answer = proposal(await stream.ask(draft_round(1, [1, 2, 2], until=60)))
            named = {token.token_id for token in answer.tokens}
            for token in answer.tokens:
                named.update(token.distribution.token_ids)
            assert max(named) < size


async def test_a_round_of_committed_ids_alone_reads_them_and_drafts_nothing() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        for until in (0, 3):
            answer = proposal(await stream.ask(draft_round(1, PROMPT, until=until)))
            assert not answer.tokens
            assert answer.done
            assert answer.handle.length == 3
        answer = proposal(await stream.ask(draft_round(3, [*PROMPT, 4], base=3, until=6)))
        fresh = proposal(await (await opened(channel)).ask(draft_round(1, [*PROMPT, 4], until=6)))
        assert content(answer) == content(fresh)
        # The last drafted token has been read by no forward.
        assert answer.handle.length == 5


@pytest.mark.parametrize("make", [table, tiny])
async def test_rolling_back_drafts_what_fresh_state_drafts(make: Callable[[], Model]) -> None:
    generator = random.Random(4)
    async with serving(make()) as channel:
        stream = await opened(channel)
        token_ids, length = list(PROMPT), 0
        known: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        for number in range(1, 21):
            until = len(token_ids) + generator.randint(0, 5)
            answer = proposal(
                await stream.ask(draft_round(number, token_ids, base=length, until=until))
            )
            fresh = await opened(channel)
            other = proposal(await fresh.ask(draft_round(1, token_ids, until=until)))
            await fresh.half_close()
            drafts = [*known, *content(answer)]
            assert drafts[: until - len(token_ids)] == content(other)
            accepted = generator.randint(0, len(drafts))
            drafted = [draft[0] for draft in drafts[:accepted]]
            length = min(answer.handle.length, len(token_ids) + accepted)
            output = [*drafted, generator.randrange(SIZE)]
            # What was sent before and is right is not sent again.
            follows = len(drafts) > accepted and drafts[accepted][0] == output[-1]
            known = drafts[accepted + 1 :] if follows else []
            token_ids = [*token_ids, *output]
            if len(token_ids) > 50:
                break
            length = min(length, len(token_ids) - 1)


async def test_lost_state_is_said_and_the_replay_drafts_the_same() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        await stream.ask(draft_round(1, PROMPT))
        lost = draft_round(2, [*PROMPT, 4], base=3, until=8)
        lost.round.prefix_digest ^= 1
        answer = await stream.ask(lost)
        assert answer.HasField("state_lost")
        assert answer.state_lost.kept_length == 0
        replay = proposal(await stream.ask(draft_round(3, [*PROMPT, 4], until=8)))
        fresh = proposal(await (await opened(channel)).ask(draft_round(1, [*PROMPT, 4], until=8)))
        assert content(replay) == content(fresh)


async def test_another_seed_draws_other_tokens_from_the_same_first_law() -> None:
    async with serving(table()) as channel:
        answers = [
            proposal(
                await (await opened(channel, derived_seed=seed)).ask(
                    draft_round(1, PROMPT, until=40)
                )
            )
            for seed in (0, 1)
        ]
    one, two = (content(answer) for answer in answers)
    assert one[0][1:] == two[0][1:]
    assert [token[0] for token in one] != [token[0] for token in two]


async def test_drafting_goes_up_to_the_context_edge_and_no_further() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        answer = proposal(await stream.ask(draft_round(1, PROMPT, until=64)))
        assert len(answer.tokens) == 61
        beyond = draft_round(2, PROMPT, until=65)
        assert await refusal(stream, beyond) == StatusCode.OUT_OF_RANGE
        again = await opened(channel)
        assert len(proposal(await again.ask(draft_round(1, PROMPT, until=5))).tokens) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"derived_seed": None},
        {"sampling": common_pb2.SamplingParams(seed=1)},
        {"mode": 9},
        {"prompt_length": 0},
        {"prompt_length": 65},
        {"choice_index": 128},
        {"cache_scope": b"x" * 65},
        {"sampling": common_pb2.SamplingParams(top_p=0)},
    ],
    ids=str,
)
async def test_an_open_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    async with serving(table()) as channel:
        assert await refusal(await opened(channel, **fields)) == StatusCode.INVALID_ARGUMENT
        status = await model_pb2_grpc.ModelServiceStub(channel).GetStatus(
            model_pb2.ModelServiceGetStatusRequest()
        )
        assert status.handles_in_use == status.open_streams == 0


async def test_a_caller_of_another_version_is_told_so() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel, protocol_version=3)
        assert await refusal(stream) == StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "message",
    [
        draft_round(1, []),
        draft_round(1, [SIZE]),
        draft_round(1, [2**32 - 1]),
        draft_pb2.DraftRequest(),
        draft_pb2.DraftRequest(open=draft_pb2.DraftOpen(protocol_version=1)),
        draft_round(1, PROMPT, until=260),
    ],
    ids=["no ids", "id = V", "largest id", "empty", "second open", "too far"],
)
async def test_a_round_that_makes_no_sense_is_refused(message: draft_pb2.DraftRequest) -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        assert await refusal(stream, message) == StatusCode.INVALID_ARGUMENT
        answer = await (await opened(channel)).ask(draft_round(1, PROMPT, until=5))
        assert len(proposal(answer).tokens) == 2
