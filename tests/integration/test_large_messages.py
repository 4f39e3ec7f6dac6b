"""The largest messages that the limits allow pass, and larger ones end one call (FAULTS K1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import torch
from grpc import aio

from draft_service.proposal import CandidateCut
from outrider.rpc.channel import Channels
from outrider.rpc.limits import MAX_DRAFT_ANSWER_BYTES
from outrider.rpc.server import Listener, RpcServer
from outrider.rpc.validation import MAX_BIASED_IDS
from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, draft_pb2, generation_pb2

VOCABULARY = 262_144
LONGEST_DRAFT = 64
MOST_CANDIDATES = 256


def test_the_largest_draft_is_far_below_the_limit_of_its_channel() -> None:
    law = common_pb2.Distribution(
        token_ids=[2**32 - 1] * MOST_CANDIDATES, weights=[65_535] * MOST_CANDIDATES
    )
    token = common_pb2.DraftToken(
        node_id=2**64 - 1, parent_node_id=2**64 - 1, token_id=2**32 - 1, distribution=law
    )
    answer = draft_pb2.DraftResponse()
    answer.proposal.tokens.extend([token] * LONGEST_DRAFT)
    assert LONGEST_DRAFT * MOST_CANDIDATES < answer.ByteSize() < MAX_DRAFT_ANSWER_BYTES / 8


async def test_a_large_vocabulary_with_wide_laws_and_many_biases_works() -> None:
    target, draft = (
        WorkerPlan(tiny_model(vocabulary_size=VOCABULARY, dtype=torch.float32)) for _ in range(2)
    )
    biases = {VOCABULARY - 1 - place * 7: -1.5 for place in range(MAX_BIASED_IDS)}
    request = token_request(
        [place * 997 % VOCABULARY for place in range(50)],
        max_new_tokens=20,
        sampling=common_pb2.SamplingParams(
            temperature=3.0,
            logit_bias=biases,
            ignore_eos=True,
            verification=common_pb2.VERIFICATION_REJECTION,
        ),
        speculation=generation_pb2.SpeculationParams(draft_length=16),
    )
    async with running_cluster(
        target, draft, cut=CandidateCut(MOST_CANDIDATES, 1.0), draft_timeout_ms=60_000
    ) as cluster:
        output = await cluster.generate(request)
        refused = token_request([1], sampling=common_pb2.SamplingParams(logit_bias=biases))
        refused.sampling.logit_bias[0] = 1.0
        with pytest.raises(aio.AioRpcError) as caught:
            await cluster.generate(refused)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(output.token_ids) == 20
    assert output.summary.speculation.draft_tokens >= 16
    assert output.summary.speculation.draft_invalid_rounds == 0


async def test_an_answer_beyond_a_channels_limit_ends_that_call_alone() -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"x" * int(request)

    server = RpcServer(Listener("127.0.0.1:0"), service_names=["test.Bytes"])
    handlers = {"Answer": grpc.unary_stream_rpc_method_handler(answer)}
    server.grpc_server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Bytes", handlers),)
    )
    await server.start()
    channel = Channels(max_receive_bytes=MAX_DRAFT_ANSWER_BYTES).open(server.address)
    ask: Any = channel.unary_stream("/test.Bytes/Answer")
    held = ask(str(MAX_DRAFT_ANSWER_BYTES).encode(), timeout=20)
    assert len(await held.read()) == MAX_DRAFT_ANSWER_BYTES
    with pytest.raises(aio.AioRpcError) as caught:
        await ask(str(MAX_DRAFT_ANSWER_BYTES + 1).encode(), timeout=20).read()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await held.read() is aio.EOF
    await channel.close()
    await server.drain(0)
