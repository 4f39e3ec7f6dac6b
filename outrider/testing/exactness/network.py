"""The same experiments through the real services: gRPC on loopback, both streams, both engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from draft_service.proposal import CandidateCut
from outrider.engine.model import Model
from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.cluster import (
    Cluster,
    Output,
    WorkerPlan,
    running_cluster,
    token_request,
)
from outrider.testing.exactness.decoding import Request, Round
from outrider.testing.exactness.tables import TablePair
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, generation_pb2

MOST_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class NetworkDecoder:
    """Decodes each request as a client of a running cluster.

    The draft length differs from request to request. A chunk is a round; how many draft tokens it
    had follows from the lengths, as long as no draft was missed, which is checked.
    """

    cluster: Cluster
    loop: asyncio.AbstractEventLoop
    draft_lengths: Sequence[int] = (4, 1, 6, 2, 3)
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION

    def __call__(self, requests: Sequence[Request]) -> Iterator[Sequence[Round]]:
        """All requests, a bounded number of them at once."""
        running = asyncio.run_coroutine_threadsafe(self._decode_all(requests), self.loop)
        return iter(running.result())

    async def _decode_all(self, requests: Sequence[Request]) -> list[Sequence[Round]]:
        gate = asyncio.Semaphore(MOST_AT_ONCE)

        async def decode(number: int, request: Request) -> Sequence[Round]:
            async with gate:
                draft_length = self.draft_lengths[number % len(self.draft_lengths)]
                message = _message(request, draft_length)
                message.sampling.verification = self.verification
                output = await self.cluster.generate(message)
                return _rounds(output, request.max_new_tokens, draft_length)

        return await asyncio.gather(
            *(decode(number, request) for number, request in enumerate(requests))
        )


@contextmanager
def network_decoder(
    pair: TablePair,
    *,
    draft: Model | None = None,
    cut: CandidateCut | None = None,
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION,
    **settings: Any,
) -> Iterator[NetworkDecoder]:
    """A decoder over services that serve a pair of tables; they run in a thread of their own.

    `draft` takes the place of the pair's own draft.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="services")
    thread.start()
    stack = AsyncExitStack()

    async def enter() -> Cluster:
        return await stack.enter_async_context(
            running_cluster(
                WorkerPlan(TableModel(pair.target)),
                WorkerPlan(draft or TableModel(pair.draft)),
                cut=cut,
                **settings,
            )
        )

    try:
        cluster = asyncio.run_coroutine_threadsafe(enter(), loop).result()
        yield NetworkDecoder(cluster, loop, verification=verification)
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _message(request: Request, draft_length: int) -> generation_pb2.GenerateRequest:
    return token_request(
        request.prompt_token_ids,
        max_new_tokens=request.max_new_tokens,
        sampling=_sampling(request.options, request.seed),
        speculation=generation_pb2.SpeculationParams(draft_length=draft_length),
    )


def _sampling(options: SamplingOptions, seed: int | None) -> common_pb2.SamplingParams:
    return common_pb2.SamplingParams(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        min_tokens=options.min_tokens,
        logit_bias=options.logit_bias,
        stop_token_ids=options.stop_token_ids,
        seed=seed,
    )


def _rounds(output: Output, max_new_tokens: int, draft_length: int) -> Sequence[Round]:
    if output.summary.speculation.draft_missed_rounds:
        raise RuntimeError("a draft was missed, so the rounds' draft lengths are not known")
    rounds: list[Round] = []
    for chunk in output.chunks:
        drafted = min(draft_length, max_new_tokens - chunk.offset - 1) if rounds else 0
        token_ids = list(chunk.token_ids)
        rounds.append(Round(drafted, len(token_ids) - 1, token_ids))
    return rounds
