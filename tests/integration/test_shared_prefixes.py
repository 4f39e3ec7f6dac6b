"""Whose KV state is found again: prompts of one cache scope share it, of two scopes never."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc import aio

from outrider.rpc.api_keys import key_line, key_metadata, new_key
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, running_cluster, start_target, token_request
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_models import DRAFT_SEED, tiny_model
from outrider.v1 import common_pb2, generation_pb2, model_pb2, model_pb2_grpc

PROMPT = [place * 7 % 128 for place in range(70)]
SHARED = 64
SAMPLED = common_pb2.SamplingParams(seed=3)


async def opened(channel: aio.Channel, scope: bytes) -> VerifyStream:
    return await open_verify(
        channel, sampling=SAMPLED, prompt_length=len(PROMPT), cache_scope=scope
    )


async def hits(channel: aio.Channel) -> int:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    status = await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())
    assert status.prefix_asked_tokens > 0
    return int(status.prefix_hit_tokens)


@pytest.mark.parametrize("ends", ["the first stream has ended", "both are open"])
async def test_state_is_shared_within_a_scope_and_never_across(ends: str) -> None:
    server = await start_target(WorkerPlan(tiny_model()))
    async with open_channel(server.rpc.address) as channel:
        first = await opened(channel, b"one")
        verdict = (await first.ask(verify_round(1, PROMPT))).verdict
        if ends != "both are open":
            await first.half_close()
        stranger = await opened(channel, b"two")
        elsewhere = (await stranger.ask(verify_round(1, PROMPT))).verdict
        assert await hits(channel) == 0
        friend = await opened(channel, b"one")
        again = (await friend.ask(verify_round(1, PROMPT))).verdict
        assert await hits(channel) == SHARED
        nobody = await opened(channel, b"")
        await nobody.ask(verify_round(1, PROMPT))
        assert await hits(channel) == SHARED
        assert elsewhere.output_token_ids == again.output_token_ids == verdict.output_token_ids
    await server.stop(0)


async def test_the_second_turn_of_a_chat_finds_the_first() -> None:
    target, draft = WorkerPlan(tiny_model()), WorkerPlan(tiny_model(seed=DRAFT_SEED))
    speculation = generation_pb2.SpeculationParams(draft_length=3)
    async with running_cluster(target, draft, draft_timeout_ms=60_000) as cluster:
        first = await cluster.generate(
            token_request(PROMPT, max_new_tokens=30, sampling=SAMPLED, speculation=speculation)
        )
        conversation = [*PROMPT, *first.token_ids, 5, 6, 7]
        assert cluster.draft is not None
        before = [await worker.runtime.status() for worker in (cluster.target, cluster.draft)]
        await cluster.generate(
            token_request(conversation, max_new_tokens=5, sampling=SAMPLED, speculation=speculation)
        )
        after = [await worker.runtime.status() for worker in (cluster.target, cluster.draft)]
    for then, now in zip(before, after, strict=True):
        assert then.prefix_hit_tokens == 0
        assert now.prefix_hit_tokens >= SHARED


async def test_tenants_share_nothing_and_one_tenants_keys_do(tmp_path: Path) -> None:
    keys = {name: new_key() for name in ("a", "a again", "b")}
    file = tmp_path / "keys"
    file.write_text("".join(f"{key_line(name[0], key)}\n" for name, key in keys.items()))
    outputs, hits_after = [], []
    async with running_cluster(WorkerPlan(tiny_model()), None, api_keys_file=file) as cluster:
        for name in ("a", "b", "a again"):
            request = token_request(PROMPT, max_new_tokens=4, sampling=SAMPLED)
            call = cluster.stub.Generate(request, metadata=key_metadata(keys[name]))
            outputs.append([token async for part in call for token in part.chunk.token_ids])
            status = await cluster.target.runtime.status()
            hits_after.append(status.prefix_hit_tokens)
    assert hits_after == [0, 0, SHARED]
    assert outputs[0] == outputs[1] == outputs[2]
