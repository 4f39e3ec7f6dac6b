"""The embedded pair behind the three real services in one process, every message kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from grpc import aio

from outrider.engine.loading import LoadedModel, load_model
from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster
from outrider.v1 import draft_pb2, target_pb2
from outrider.worker.tokenizer_files import read_tokenizer_files

CACHE = Path("~/.cache/outrider").expanduser()
THREADS = 1


@dataclass(slots=True)
class Wire:
    """What crossed the wire since the last `clear`, as bytes on it, framing apart."""

    verify_requests: list[bytes] = field(default_factory=list)
    verify_responses: list[bytes] = field(default_factory=list)
    draft_requests: list[bytes] = field(default_factory=list)
    draft_responses: list[bytes] = field(default_factory=list)

    def clear(self) -> None:
        """Forgets everything."""
        for kept in (
            self.verify_requests,
            self.verify_responses,
            self.draft_requests,
            self.draft_responses,
        ):
            kept.clear()

    @property
    def verify_rounds(self) -> list[target_pb2.VerifyRound]:
        """The Rounds sent to the target."""
        messages = map(target_pb2.VerifyRequest.FromString, self.verify_requests)
        return [message.round for message in messages if message.HasField("round")]

    @property
    def verdicts(self) -> list[target_pb2.Verdict]:
        """The target's verdicts."""
        messages = map(target_pb2.VerifyResponse.FromString, self.verify_responses)
        return [message.verdict for message in messages if message.HasField("verdict")]

    @property
    def draft_rounds(self) -> list[draft_pb2.DraftRound]:
        """The Rounds sent to the draft."""
        messages = map(draft_pb2.DraftRequest.FromString, self.draft_requests)
        return [message.round for message in messages if message.HasField("round")]

    @property
    def proposals(self) -> list[draft_pb2.Proposal]:
        """The draft's proposals."""
        messages = map(draft_pb2.DraftResponse.FromString, self.draft_responses)
        return [message.proposal for message in messages if message.HasField("proposal")]


class _KeepingChannel:
    """A channel whose streams keep the bytes of each message."""

    def __init__(self, channel: Any, *, sent: list[bytes], received: list[bytes]) -> None:
        self._channel = channel
        self._sent = sent
        self._received = received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **options: Any,
    ) -> Any:
        """As of grpc.aio.Channel."""

        def serialize(message: Any) -> bytes:
            self._sent.append(data := request_serializer(message))
            return data

        def deserialize(data: bytes) -> Any:
            self._received.append(data)
            return response_deserializer(data)

        return self._channel.stream_stream(
            method,
            request_serializer=serialize,
            response_deserializer=deserialize,
            **options,
        )


@dataclass(frozen=True, slots=True)
class EmbeddedPair:
    """The running services, what crossed between them, and the target's model."""

    cluster: Cluster
    wire: Wire
    target: LoadedModel


@asynccontextmanager
async def embedded_pair(*, dtype: str, threads: int = THREADS) -> AsyncIterator[EmbeddedPair]:
    """Loads both models and serves them until the block ends."""
    target = load_model("embedded", role="target", cache_dir=CACHE, dtype=dtype, threads=threads)
    draft = load_model("embedded", role="draft", cache_dir=CACHE, dtype=dtype, threads=threads)
    async with running_cluster(_plan(target), _plan(draft)) as cluster:
        wire = Wire()
        pools = cluster.coordinator.pools
        for replicas, sent, received in (
            (pools.targets, wire.verify_requests, wire.verify_responses),
            (pools.drafts, wire.draft_requests, wire.draft_responses),
        ):
            (replica,) = replicas.all
            kept = _KeepingChannel(replica.worker.channel, sent=sent, received=received)
            replica.worker.channel = cast("aio.Channel", kept)
        yield EmbeddedPair(cluster, wire, target)


def _plan(loaded: LoadedModel) -> WorkerPlan:
    return WorkerPlan(
        loaded.model,
        dtype=loaded.dtype,
        eos_token_ids=loaded.eos_token_ids,
        tokenizer=read_tokenizer_files(loaded.folder),
    )
