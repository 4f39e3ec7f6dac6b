"""A target's streams, for models on a thread and in a process alike."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from grpc import aio

from outrider.draft_law import CutLaw
from outrider.engine.model import Model
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.model_process import start_worker_process
from outrider.testing.streams import VerifyStream, open_verify
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc, target_pb2
from outrider.worker.engine import EngineOptions
from outrider.worker.server import WorkerServer
from target_service.kind import target_kind

ENGINES = ("thread", "process")
SIZE = 8
SEED = 5
PROMPT = [1, 2, 3]
SAMPLED = common_pb2.SamplingParams(seed=SEED)

Status = model_pb2.ModelServiceGetStatusResponse


async def start(
    engine: str, build: Callable[[], Model], *, lease_s: float = 30.0
) -> WorkerServer[Any, Any]:
    """A target that is SERVING."""
    if engine == "thread":
        return await start_target(WorkerPlan(build(), lease_s=lease_s))
    return await start_worker_process(
        target_kind(max_draft_length=16), build, options=EngineOptions(lease_s=lease_s)
    )


async def opened(channel: aio.Channel, **fields: Any) -> VerifyStream:
    return await open_verify(
        channel, **{"sampling": SAMPLED, "prompt_length": len(PROMPT), **fields}
    )


async def answer_of(stream: VerifyStream) -> target_pb2.VerifyResponse:
    """The next answer but progress."""
    while (answer := await stream.read()).HasField("progress"):
        pass
    return answer


async def status(channel: aio.Channel) -> Status:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


async def until(channel: aio.Channel, holds: Callable[[Status], bool]) -> None:
    """Returns once the worker's status is so."""
    for _ in range(2000):
        if holds(await status(channel)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await status(channel))


def drawn(token_ids: Sequence[int], laws: Sequence[CutLaw]) -> list[common_pb2.DraftToken]:
    """Draft tokens after `token_ids`, each drawn from its law as a draft draws it."""
    prefix = TokenPrefix(token_ids)
    seed = derive_seed(Purpose.DRAFT, seed=SEED, choice_index=0)
    drafts = []
    for law in laws:
        word = draw_word(seed, position=len(prefix), digest=prefix.digest(len(prefix)))
        distribution = common_pb2.Distribution(token_ids=law.token_ids, weights=law.weights)
        drafts.append(common_pb2.DraftToken(token_id=law.draw(word), distribution=distribution))
        prefix.extend([drafts[-1].token_id])
    return drafts


def random_laws(generator: random.Random, count: int) -> list[CutLaw]:
    return [
        CutLaw(
            tuple(generator.sample(range(SIZE), 4)),
            tuple(generator.randint(1, 65535) for _ in range(4)),
        )
        for _ in range(count)
    ]
