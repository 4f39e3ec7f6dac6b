"""The same experiments through the real services: gRPC on loopback, both streams, both engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from typing import Any

from coordinator.draft_plan import RoundFacts
from draft_service.proposal import CandidateCut
from outrider.drafter import Drafter
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
from outrider.testing.exactness.pool_troubles import WEIGHTS
from outrider.testing.exactness.recorded_policy import PolicyMaker, RecordedPool
from outrider.testing.exactness.tables import TablePair
from outrider.testing.pools import running_pools
from outrider.testing.scripted import BLOCKS, TableModel
from outrider.v1 import common_pb2, generation_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDecoder:
    """Decodes each request as a client of a running cluster.

    Requests name the draft lengths in turns, and no one hears of them where `policies` has a
    choice of its own. What each round was like, the policies were told.
    """

    cluster: Cluster
    loop: asyncio.AbstractEventLoop
    policies: RecordedPool
    draft_lengths: Sequence[int] = (4, 2, 6, 3)
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION
    at_once: int = 32

    def __call__(self, requests: Sequence[Request]) -> Iterator[Sequence[Round]]:
        """All requests, a bounded number of them at once."""
        running = asyncio.run_coroutine_threadsafe(self._decode_all(requests), self.loop)
        return iter(running.result())

    async def _decode_all(self, requests: Sequence[Request]) -> list[Sequence[Round]]:
        gate = asyncio.Semaphore(self.at_once)

        async def decode(number: int, request: Request) -> Sequence[Round]:
            async with gate:
                draft_length = self.draft_lengths[number % len(self.draft_lengths)]
                message = _message(request, draft_length)
                message.sampling.verification = self.verification
                output = await self.cluster.generate(message)
                return _rounds(output, self.policies.take(output.summary.speculation))

        return await asyncio.gather(
            *(decode(number, request) for number, request in enumerate(requests))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the services are run under.

    `policy` takes the place of the coordinator's choices; `draft` that of the pair's own draft.
    `target_blocks`: of the target's KV pool. `target_step_s`: what each of its forwards takes.
    `at_once`: generations. `troubles` befall the cluster as long as it runs. `replicas`: of target
    and draft each; with several, each is reached through a proxy. `settings` are the coordinator's.
    """

    policy: PolicyMaker | None = None
    draft: Model | None = None
    cut: CandidateCut | None = None
    drafter: Drafter = Drafter.MODEL
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION
    target_blocks: int = BLOCKS
    target_step_s: float = 0.0
    at_once: int = 32
    draft_round_trip_s: float | None = None
    replicas: int = 1
    troubles: Callable[[Cluster], Coroutine[Any, Any, None]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def network_decoder(pair: TablePair, conditions: Conditions) -> Iterator[NetworkDecoder]:
    """A decoder over services that serve a pair of tables; they run in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="services")
    thread.start()
    stack = AsyncExitStack()
    policies = RecordedPool(conditions.policy)

    async def enter() -> Cluster:
        cluster = await stack.enter_async_context(_cluster(pair, conditions))
        cluster.coordinator.pools.policy = policies
        if conditions.troubles is not None:
            await stack.enter_async_context(_befalling(conditions.troubles(cluster)))
        return cluster

    try:
        yield NetworkDecoder(
            cluster=asyncio.run_coroutine_threadsafe(enter(), loop).result(),
            loop=loop,
            policies=policies,
            verification=conditions.verification,
            at_once=conditions.at_once,
        )
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _cluster(
    pair: TablePair, conditions: Conditions
) -> AbstractAsyncContextManager[Cluster, bool | None]:
    def target() -> WorkerPlan:
        model = TableModel(
            pair.target, step_time_s=conditions.target_step_s, blocks=conditions.target_blocks
        )
        return WorkerPlan(model, weights_digest=WEIGHTS)

    def draft() -> WorkerPlan:
        return WorkerPlan(conditions.draft or TableModel(pair.draft))

    if conditions.replicas > 1:
        return running_pools(
            [target() for _ in range(conditions.replicas)],
            [draft() for _ in range(conditions.replicas)],
            cut=conditions.cut,
            drafter=conditions.drafter,
            **conditions.settings,
        )
    return running_cluster(
        target(),
        draft(),
        cut=conditions.cut,
        drafter=conditions.drafter,
        draft_round_trip_s=conditions.draft_round_trip_s,
        **conditions.settings,
    )


@asynccontextmanager
async def _befalling(troubles: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Troubles until the context is left. What they fail by is raised then."""
    task = asyncio.create_task(troubles)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


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


def _rounds(output: Output, facts: Sequence[RoundFacts]) -> Sequence[Round]:
    """A chunk is a round; the first reads the prompt, and no policy is told of it."""
    if output.summary.speculation.draft_invalid_rounds:
        raise RuntimeError("draft tokens were set aside, though the draft is honest")
    first, *others = output.chunks
    return [
        Round(0, 0, list(first.token_ids)),
        *(
            Round(
                told.drafted,
                told.accepted,
                list(chunk.token_ids),
                replayed=told.replayed,
                foreseen=told.guess,
            )
            for chunk, told in zip(others, facts, strict=True)
        ),
    ]
