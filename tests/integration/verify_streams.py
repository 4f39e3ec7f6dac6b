"""Verify streams for tests of the target's contract: a server, laws, verdicts."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import torch
from grpc import aio

from outrider.draft_law import CutLaw
from outrider.engine.model import Model
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc, target_pb2

SIZE = 8

SEED = 5

PROMPT = [1, 2, 3]

SAMPLED = common_pb2.SamplingParams(seed=SEED)

Verdict = tuple[int, tuple[int, ...], str]


def table() -> TableModel:
    return TableModel(random_table(seed=1))


def tiny() -> Model:
    return tiny_model(vocabulary_size=SIZE)


@asynccontextmanager
async def serving(model: Model, **plan: Any) -> AsyncIterator[aio.Channel]:
    server = await start_target(WorkerPlan(model, **plan))
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


async def opened(channel: aio.Channel, **fields: Any) -> VerifyStream:
    return await open_verify(
        channel, **{"sampling": SAMPLED, "prompt_length": len(PROMPT), **fields}
    )


async def status(channel: aio.Channel) -> model_pb2.ModelServiceGetStatusResponse:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


async def until(
    channel: aio.Channel, holds: Callable[[model_pb2.ModelServiceGetStatusResponse], bool]
) -> None:
    """Returns once the worker's status is so."""
    for _ in range(2000):
        if holds(await status(channel)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await status(channel))


def decided(response: target_pb2.VerifyResponse) -> Verdict:
    assert response.HasField("verdict"), response
    verdict = response.verdict
    return verdict.accepted, tuple(verdict.output_token_ids), verdict.draft_invalid.reason


async def cold(channel: aio.Channel, token_ids: Sequence[int], **fields: Any) -> Verdict:
    """The verdict of the same round on fresh state."""
    stream = await opened(channel)
    verdict = decided(await stream.ask(verify_round(99, token_ids, **fields)))
    await stream.half_close()
    return verdict


def drawn(token_ids: Sequence[int], laws: Sequence[CutLaw]) -> list[common_pb2.DraftToken]:
    """Draft tokens after `token_ids`, each drawn from its law as a draft draws it."""
    prefix = TokenPrefix(token_ids)
    seed = derive_seed(Purpose.DRAFT, seed=SEED, choice_index=0)
    drafts = []
    for law in laws:
        word = draw_word(seed, position=len(prefix), digest=prefix.digest(len(prefix)))
        drafts.append(message(law.draw(word), law.token_ids, law.weights))
        prefix.extend([drafts[-1].token_id])
    return drafts


def message(
    token_id: int, candidate_ids: Sequence[int], weights: Sequence[int]
) -> common_pb2.DraftToken:
    law = common_pb2.Distribution(token_ids=candidate_ids, weights=weights)
    return common_pb2.DraftToken(token_id=token_id, distribution=law)


def random_laws(generator: random.Random, count: int, size: int) -> list[CutLaw]:
    return [
        CutLaw(
            tuple(generator.sample(range(size), 4)),
            tuple(generator.randint(1, 65535) for _ in range(4)),
        )
        for _ in range(count)
    ]


class Gate:
    """A model whose forwards wait until they are let through."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self._table = table()
        self.model = ScriptedModel(self._logits, vocabulary_size=SIZE)

    def _logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        assert self.opened.wait(30)
        return self._table.table[token_ids[-2], token_ids[-1]]

    async def reached(self) -> None:
        for _ in range(4000):
            if self.model.forwards:
                return
            await asyncio.sleep(0.005)
        raise AssertionError("no forward has begun")
