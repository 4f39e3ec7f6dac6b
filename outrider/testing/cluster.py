"""The three real services in one process: real gRPC on loopback, models of the caller's choice."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from grpc import aio

from coordinator.main import CoordinatorServer
from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.delay_proxy import DelayProxy
from outrider.drafter import Drafter
from outrider.engine.loop_options import LoopOptions
from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener
from outrider.settings import CoordinatorSettings
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import generation_pb2, generation_pb2_grpc
from outrider.worker.engine import Engine, EngineOptions
from outrider.worker.model_description import ModelDescription
from outrider.worker.server import WorkerKind, WorkerServer
from outrider.worker.worker_loop import ThreadLoop
from target_service.kind import target_kind

LOOPBACK = "127.0.0.1:0"
DEFAULT_OPTIONS = LoopOptions()
NO_TOKENIZER = TokenizerFiles()


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """A model to serve and what GetModel shall say of it.

    Without a `weights_digest` no other process goes on with what this one began.
    """

    model: Model
    dtype: str = "float64"
    eos_token_ids: tuple[int, ...] = ()
    tokenizer: TokenizerFiles = field(default_factory=TokenizerFiles)
    address: str = LOOPBACK
    max_handles: int = 256
    lease_s: float = 30.0
    options: LoopOptions = DEFAULT_OPTIONS
    weights_digest: str = ""

    def describe(self, kind: WorkerKind[Any, Any]) -> ModelDescription:
        """The description of one process's worth of this model."""
        return identified(
            describe(
                self.model,
                dtype=self.dtype,
                eos_token_ids=self.eos_token_ids,
                tokenizer=self.tokenizer,
                weights_digest=self.weights_digest,
            ),
            kind,
        )


def describe(
    model: Model,
    *,
    dtype: str = "float64",
    eos_token_ids: tuple[int, ...] = (),
    tokenizer: TokenizerFiles = NO_TOKENIZER,
    weights_digest: str = "",
) -> ModelDescription:
    """What there is to say about a model, whoever serves it."""
    return ModelDescription(
        weights_digest=weights_digest,
        weights_bytes=model.weights_bytes,
        vocabulary_size=model.vocabulary_size,
        context_length=model.context_length,
        dtype=dtype,
        device="cpu",
        eos_token_ids=eos_token_ids,
        tokenizer=tokenizer,
    )


def identified(description: ModelDescription, kind: WorkerKind[Any, Any]) -> ModelDescription:
    """The description as one process's worth of a worker gives it."""
    return replace(
        description,
        name="scripted",
        role=kind.role,
        replica_id=secrets.token_hex(8),
        max_draft_length=kind.max_draft_length,
        features=kind.features,
        drafter=kind.drafter,
    )


async def start_worker(kind: WorkerKind[Any, Any], plan: WorkerPlan) -> WorkerServer[Any, Any]:
    """A worker that is SERVING."""
    server = WorkerServer(kind, Listener(plan.address))
    await server.rpc.start()
    engine: Engine[Any, Any] = Engine(
        plan.model,
        kind.start_work,
        options=EngineOptions(
            max_handles=plan.max_handles, lease_s=plan.lease_s, loop=plan.options
        ),
        count_outputs=kind.count_outputs,
    )
    await server.fill(ThreadLoop(engine), plan.describe(kind))
    return server


async def start_target(plan: WorkerPlan, *, max_draft_length: int = 16) -> WorkerServer[Any, Any]:
    """A target that is SERVING."""
    return await start_worker(target_kind(max_draft_length=max_draft_length), plan)


async def start_draft(
    plan: WorkerPlan, *, cut: CandidateCut | None = None, drafter: Drafter = Drafter.MODEL
) -> WorkerServer[Any, Any]:
    """A draft that is SERVING."""
    return await start_worker(draft_kind(cut or CandidateCut(), drafter), plan)


@dataclass(slots=True)
class Output:
    """One generation as a client saw it."""

    chunks: list[generation_pb2.OutputChunk] = field(default_factory=list)
    summary: generation_pb2.GenerationSummary = field(
        default_factory=generation_pb2.GenerationSummary
    )

    @property
    def token_ids(self) -> list[int]:
        """All output ids."""
        return [token_id for chunk in self.chunks for token_id in chunk.token_ids]

    @property
    def text(self) -> str:
        """All output text, held-back text included."""
        return "".join(chunk.text for chunk in self.chunks) + self.summary.text

    @property
    def gapless(self) -> bool:
        """Offsets follow each other: nothing twice, nothing lost."""
        ends = [chunk.offset + len(chunk.token_ids) for chunk in self.chunks]
        return all(chunk.offset == end for chunk, end in zip(self.chunks[1:], ends, strict=False))


class Cluster:
    """A running coordinator with its workers, and a client of it."""

    def __init__(
        self,
        coordinator: CoordinatorServer,
        target: WorkerServer[Any, Any],
        draft: WorkerServer[Any, Any] | None,
        *,
        draft_hop: DelayProxy | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.target = target
        self.draft = draft
        self.draft_hop = draft_hop
        self.channel: aio.Channel = open_channel(coordinator.rpc.address)
        self.stub = generation_pb2_grpc.GenerationServiceStub(self.channel)

    async def generate(self, request: generation_pb2.GenerateRequest) -> Output:
        """Runs one request to its end. Raises AioRpcError."""
        output = Output()
        async for response in self.stub.Generate(request):
            if response.HasField("chunk"):
                output.chunks.append(response.chunk)
            else:
                output.summary = response.summary
        return output

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.coordinator.stop(0.1)
        for worker in (self.draft, self.target):
            if worker is not None:
                await worker.stop(0.1)


@asynccontextmanager
async def running_cluster(
    target: WorkerPlan,
    draft: WorkerPlan | None,
    *,
    cut: CandidateCut | None = None,
    drafter: Drafter = Drafter.MODEL,
    max_draft_length: int = 16,
    draft_round_trip_s: float | None = None,
    **settings: Any,
) -> AsyncIterator[Cluster]:
    """The three services, ready: the draft is paired, or refused, when this is entered.

    `draft_round_trip_s`: of a proxy between coordinator and draft; None: there is none.
    `settings` are those of the coordinator, which speculates whether that pays or not.
    """
    async with AsyncExitStack() as stack:
        target_server = await start_target(target, max_draft_length=max_draft_length)
        draft_server = await start_draft(draft, cut=cut, drafter=drafter) if draft else None
        draft_address = draft_server.rpc.address if draft_server else ""
        hop = None
        if draft_round_trip_s is not None:
            hop = DelayProxy(draft_address, round_trip_s=draft_round_trip_s)
            draft_address = (await stack.enter_async_context(hop)).address
        coordinator = CoordinatorServer(
            CoordinatorSettings(
                listen=LOOPBACK,
                target_address=target_server.rpc.address,
                draft_address=draft_address,
                **{
                    "draft_timeout_ms": 10_000,
                    "speculation": "on",
                    "target_wait_s": 1.0,
                    **settings,
                },
            )
        )
        await coordinator.start()
        cluster = await stack.enter_async_context(
            Cluster(coordinator, target_server, draft_server, draft_hop=hop)
        )
        await coordinator.become_ready()
        await coordinator.pools.look()
        yield cluster


def token_request(token_ids: Sequence[int], **fields: Any) -> generation_pb2.GenerateRequest:
    """A request with a prompt of token ids."""
    return generation_pb2.GenerateRequest(
        tokens=generation_pb2.TokenPrompt(token_ids=token_ids), **fields
    )
