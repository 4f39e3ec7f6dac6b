"""Input that makes no sense is refused by name, and hurts nobody else: over real gRPC."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import StatusCode, aio

from outrider.rpc.channel import open_channel
from outrider.rpc.status import RemoteError, remote_error
from outrider.testing.cluster import (
    Cluster,
    WorkerPlan,
    running_cluster,
    start_target,
    token_request,
)
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_tokenizer import CHAT_TEMPLATE, tiny_tokenizer
from outrider.tokenizer_files import CHAT_TEMPLATE_FILE, TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import common_pb2, generation_pb2, target_pb2, target_pb2_grpc

SIZE = 8
CONTEXT = 64
PROMPT = [1, 2, 3]
REQUEST_BYTES = 100_000
NAN = math.nan

INVALID = StatusCode.INVALID_ARGUMENT
BEYOND = StatusCode.OUT_OF_RANGE


def table(seed: int) -> TableModel:
    return TableModel(random_table(seed=seed), context_length=CONTEXT)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A target without a tokenizer, and a draft."""
    async with running_cluster(
        WorkerPlan(table(1)),
        WorkerPlan(table(2)),
        max_draft_length=6,
        max_new_tokens=40,
        max_request_bytes=REQUEST_BYTES,
    ) as running:
        yield running


async def refusal(cluster: Cluster, request: generation_pb2.GenerateRequest) -> RemoteError:
    with pytest.raises(aio.AioRpcError) as failure:
        await cluster.generate(request)
    return remote_error(failure.value)


async def assert_healthy(cluster: Cluster) -> None:
    output = await cluster.generate(token_request(PROMPT, max_new_tokens=4))
    assert len(output.token_ids) == 4


def sampling(**fields: Any) -> generation_pb2.GenerateRequest:
    return token_request(PROMPT, sampling=common_pb2.SamplingParams(**fields))


def speculation(**fields: Any) -> generation_pb2.GenerateRequest:
    return token_request(PROMPT, speculation=generation_pb2.SpeculationParams(**fields))


Request = generation_pb2.GenerateRequest
PROMPTS = [
    (Request(), INVALID, "prompt"),
    (token_request([]), INVALID, "tokens.token_ids"),
    (Request(text=""), INVALID, "prompt"),
    (Request(text="text"), INVALID, "prompt"),
    (Request(chat=generation_pb2.ChatPrompt()), INVALID, "prompt"),
    (token_request([1, SIZE]), INVALID, "tokens.token_ids[1]"),
    (token_request([2**31 - 1]), INVALID, "tokens.token_ids[0]"),
    (token_request([2**32 - 1]), INVALID, "tokens.token_ids[0]"),
    (token_request([1] * CONTEXT), BEYOND, "prompt"),
    (token_request([1] * 10_000), BEYOND, "prompt"),
    (token_request(PROMPT, max_new_tokens=0), INVALID, "max_new_tokens"),
    (token_request(PROMPT, max_new_tokens=41), INVALID, "max_new_tokens"),
    (token_request(PROMPT, max_new_tokens=2**32 - 1), INVALID, "max_new_tokens"),
    (token_request([1] * 60, max_new_tokens=5), BEYOND, "max_new_tokens"),
    (token_request(PROMPT, output_token_ids=[1, SIZE]), INVALID, "output_token_ids[1]"),
    (
        token_request(PROMPT, max_new_tokens=2, output_token_ids=[1, 2, 3]),
        INVALID,
        "output_token_ids",
    ),
    (speculation(draft_length=7), INVALID, "speculation.draft_length"),
    (speculation(draft_length=2**32 - 1), INVALID, "speculation.draft_length"),
    (speculation(copies=7), INVALID, "speculation.copies"),
    (speculation(mode=99), INVALID, "speculation.mode"),
]

BEYOND_RANGE = {
    "temperature": (-1.0, 100.5, NAN, math.inf, -math.inf),
    "top_p": (0.0, -0.1, 1.01, NAN, math.inf),
    "min_p": (-0.1, 1.01, NAN, math.inf),
    "repetition_penalty": (0.0, -1.0, 10.5, NAN, math.inf),
    "presence_penalty": (-2.1, 2.1, NAN, math.inf),
    "frequency_penalty": (-2.1, 2.1, NAN, -math.inf),
    "top_k": (SIZE + 1, 2**32 - 1),
    "min_tokens": (41, 2**32 - 1),
    "verification": (99,),
}
SAMPLING = [
    *(
        (sampling(**{name: value}), INVALID, f"sampling.{name}")
        for name, values in BEYOND_RANGE.items()
        for value in values
    ),
    *(
        (sampling(logit_bias={3: value}), INVALID, "sampling.logit_bias[3]")
        for value in (NAN, math.inf, -100.5, 101.0)
    ),
    (sampling(logit_bias={SIZE: 1.0}), INVALID, "sampling.logit_bias ids"),
    (sampling(logit_bias=dict.fromkeys(range(301), 1.0)), INVALID, "sampling.logit_bias"),
    (sampling(stop_token_ids=[1, SIZE]), INVALID, "sampling.stop_token_ids[1]"),
    (sampling(stop_token_ids=[1] * 65), INVALID, "sampling.stop_token_ids"),
]


@pytest.mark.parametrize("kind", ["prompts", "sampling"])
async def test_each_wrong_field_is_refused_by_name(cluster: Cluster, kind: str) -> None:
    for request, code, field in PROMPTS if kind == "prompts" else SAMPLING:
        error = await refusal(cluster, request)
        what = str(request)[:200]
        assert (error.code, error.metadata["field"]) == (code, field), what
        assert error.metadata["allowed"], what
        assert error.reason, what
        assert field in error.message, what
        await assert_healthy(cluster)


async def test_another_model_is_not_found(cluster: Cluster) -> None:
    error = await refusal(cluster, token_request(PROMPT, model="m" * 1000))
    assert error.code == StatusCode.NOT_FOUND
    assert error.metadata["field"] == "model"
    assert error.metadata["allowed"] == "scripted"
    await assert_healthy(cluster)


async def test_a_message_beyond_the_limit_is_refused(cluster: Cluster) -> None:
    a_little = await refusal(cluster, Request(text="x" * (REQUEST_BYTES + 1)))
    assert a_little.code == INVALID
    assert str(REQUEST_BYTES) in a_little.metadata["allowed"].replace(",", "")
    much = await refusal(cluster, Request(text="x" * (20 * REQUEST_BYTES)))
    assert much.code == INVALID
    assert much.metadata["field"] == "request"
    # Not even read to its end.
    far = await refusal(cluster, Request(text="x" * (100 * REQUEST_BYTES)))
    assert far.code == StatusCode.RESOURCE_EXHAUSTED
    await assert_healthy(cluster)


async def test_texts_and_chats_that_are_empty_or_cannot_be_rendered_are_refused() -> None:
    tokenizer = tiny_tokenizer()
    size = tokenizer.get_vocab_size()
    target = ScriptedModel(lambda _: [0.0] * size, vocabulary_size=size)
    files = TokenizerFiles(
        {
            TOKENIZER_FILE: tokenizer.to_str().encode(),
            CHAT_TEMPLATE_FILE: CHAT_TEMPLATE.encode(),
        }
    )
    bare = TokenizerFiles({TOKENIZER_FILE: files.files[TOKENIZER_FILE]})
    hello = generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content="hello")
    nobody = generation_pb2.ChatMessage(content="hello")
    stranger = generation_pb2.ChatMessage(role=99, content="hello")  # type: ignore[arg-type]

    def chat(*messages: generation_pb2.ChatMessage) -> Request:
        return Request(chat=generation_pb2.ChatPrompt(messages=messages), max_new_tokens=3)

    empty_text, greeting = Request(text=""), Request(text="hello", max_new_tokens=3)
    with_template = [
        (empty_text, "text"),
        (chat(), "chat.messages"),
        (chat(hello, nobody), "chat.messages[1].role"),
        (chat(stranger), "chat.messages[0].role"),
    ]
    for tokenizer_files, cases in ((files, with_template), (bare, [(chat(hello), "chat")])):
        plan = WorkerPlan(target, tokenizer=tokenizer_files)
        async with running_cluster(plan, None) as cluster:
            for request, field in cases:
                error = await refusal(cluster, request)
                assert (error.code, error.metadata["field"]) == (INVALID, field)
                assert error.metadata["allowed"]
                assert len((await cluster.generate(greeting)).token_ids) == 3


@pytest.fixture
async def target() -> AsyncIterator[aio.Channel]:
    """A target alone, for streams of one's own."""
    server = await start_target(WorkerPlan(table(1)), max_draft_length=6)
    channel = open_channel(server.rpc.address)
    yield channel
    await channel.close()
    await server.stop(0)


async def verifying(target: aio.Channel, **fields: Any) -> VerifyStream:
    seeded = common_pb2.SamplingParams(seed=1)
    return await open_verify(target, **{"sampling": seeded, "prompt_length": 3, **fields})


async def stream_refusal(
    stream: VerifyStream, message: target_pb2.VerifyRequest | None = None
) -> RemoteError:
    try:
        if message is not None:
            await stream.send(message)
        answer = await stream.read()
    except aio.AioRpcError as error:
        return remote_error(error)
    raise AssertionError(answer)


OPENS = [
    ({"protocol_version": 0}, StatusCode.UNIMPLEMENTED, "open.protocol_version"),
    ({"protocol_version": 3}, StatusCode.UNIMPLEMENTED, "open.protocol_version"),
    ({"sampling": common_pb2.SamplingParams()}, INVALID, "open.sampling.seed"),
    ({"sampling": common_pb2.SamplingParams(seed=1, top_p=NAN)}, INVALID, "sampling.top_p"),
    ({"choice_index": 128}, INVALID, "open.choice_index"),
    ({"prompt_length": 0}, INVALID, "open.prompt_length"),
    ({"prompt_length": CONTEXT + 1}, INVALID, "open.prompt_length"),
    ({"cache_scope": b"x" * 65}, INVALID, "open.cache_scope"),
]


@pytest.mark.parametrize(("fields", "code", "field"), OPENS, ids=str)
async def test_a_target_refuses_an_open_that_makes_no_sense(
    target: aio.Channel, fields: dict[str, Any], code: StatusCode, field: str
) -> None:
    error = await stream_refusal(await verifying(target, **fields))
    assert (error.code, error.metadata["field"]) == (code, field)
    await assert_judges(target)


def changed(**fields: Any) -> target_pb2.VerifyRequest:
    request = verify_round(1, PROMPT)
    request.round.MergeFrom(target_pb2.VerifyRound(**fields))
    return request


POINT = common_pb2.DraftToken(token_id=1, point_mass=common_pb2.PointMass())
ONLY_READ = changed()
ONLY_READ.round.want_bonus = False
COMMITTED = "round.committed_token_ids"
ROUNDS = [
    (verify_round(1, []), INVALID, COMMITTED),
    (verify_round(1, [1, SIZE]), INVALID, f"{COMMITTED}[1]"),
    (verify_round(1, [2**32 - 1]), INVALID, f"{COMMITTED}[0]"),
    (verify_round(1, [1] * (CONTEXT + 1)), BEYOND, "round"),
    (verify_round(1, [1] * CONTEXT, drafts=[POINT]), BEYOND, "round"),
    (changed(base_length=2**32 - 1), BEYOND, "round"),
    (verify_round(1, PROMPT, drafts=[POINT] * 7), INVALID, "round.draft_tokens"),
    (changed(prefix_digest=1), INVALID, "round.prefix_digest"),
    (changed(decode_tokens=1, draft_tokens=[POINT]), INVALID, "round.decode_tokens"),
    (ONLY_READ, INVALID, "round.want_bonus"),
    (target_pb2.VerifyRequest(), INVALID, "round"),
    (target_pb2.VerifyRequest(open=target_pb2.VerifyOpen(protocol_version=1)), INVALID, "round"),
]


@pytest.mark.parametrize(("message", "code", "field"), ROUNDS)
async def test_a_target_refuses_a_round_that_makes_no_sense(
    target: aio.Channel, message: target_pb2.VerifyRequest, code: StatusCode, field: str
) -> None:
    error = await stream_refusal(await verifying(target), message)
    assert (error.code, error.metadata["field"]) == (code, field)
    assert error.metadata["allowed"]
    await assert_judges(target)


async def test_a_stream_begins_with_an_open(target: aio.Channel) -> None:
    for first in (verify_round(1, PROMPT), target_pb2.VerifyRequest()):
        stream = VerifyStream(target_pb2_grpc.TargetServiceStub(target).Verify())
        error = await stream_refusal(stream, first)
        assert (error.code, error.metadata["field"]) == (INVALID, "open")
    silent = VerifyStream(target_pb2_grpc.TargetServiceStub(target).Verify())
    await silent.call.done_writing()
    assert (await stream_refusal(silent)).code == INVALID
    await assert_judges(target)


async def assert_judges(target: aio.Channel) -> None:
    answer = await (await verifying(target)).ask(verify_round(1, PROMPT, drafts=[POINT]))
    assert answer.verdict.output_token_ids
