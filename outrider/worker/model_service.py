"""What a worker says about its model, its tokenizer and itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from outrider import PROTOCOL_VERSION, __version__
from outrider.rpc.server import ServicerContext
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2, model_pb2_grpc

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What GetModel tells; constant for the life of the process."""

    name: str
    role: model_pb2.WorkerRole.ValueType
    weights_digest: str
    vocabulary_size: int
    context_length: int
    replica_id: str
    dtype: str
    device: str
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    max_draft_length: int = 0
    features: tuple[str, ...] = ()
    tokenizer: TokenizerFiles = field(default_factory=TokenizerFiles)

    def to_message(self) -> model_pb2.GetModelResponse:
        """The contract's form."""
        return model_pb2.GetModelResponse(
            name=self.name,
            role=self.role,
            protocol_version=PROTOCOL_VERSION,
            features=sorted(self.features),
            weights_digest=self.weights_digest,
            vocabulary_size=self.vocabulary_size,
            tokenizer_digest=self.tokenizer.digest,
            eos_token_ids=self.eos_token_ids,
            bos_token_id=self.bos_token_id,
            context_length=self.context_length,
            max_draft_length=self.max_draft_length,
            replica_id=self.replica_id,
            build_version=__version__,
            dtype=self.dtype,
            device=self.device,
        )


class Described(Protocol):
    """A loaded worker."""

    @property
    def description(self) -> ModelDescription: ...

    async def status(self) -> model_pb2.ModelServiceGetStatusResponse: ...


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Serves the description of a worker."""

    def __init__(self, worker: Callable[[], Described]) -> None:
        """`worker` gives the loaded worker; it raises PoolUnavailable while there is none."""
        self._worker = worker

    async def GetModel(  # noqa: N802
        self, request: model_pb2.GetModelRequest, context: ServicerContext
    ) -> model_pb2.GetModelResponse:
        """The model's description. UNAVAILABLE while it loads."""
        return self._worker().description.to_message()

    async def GetTokenizer(  # noqa: N802
        self, request: model_pb2.GetTokenizerRequest, context: ServicerContext
    ) -> AsyncIterator[model_pb2.GetTokenizerResponse]:
        """The tokenizer's files in pieces, one file after another."""
        tokenizer = self._worker().description.tokenizer
        for name, content in tokenizer.files.items():
            for start in range(0, max(1, len(content)), PIECE_BYTES):
                yield model_pb2.GetTokenizerResponse(
                    file_name=name,
                    data=content[start : start + PIECE_BYTES],
                    tokenizer_digest=tokenizer.digest,
                )

    async def GetStatus(  # noqa: N802
        self, request: model_pb2.ModelServiceGetStatusRequest, context: ServicerContext
    ) -> model_pb2.ModelServiceGetStatusResponse:
        """Load and memory at this moment."""
        return await self._worker().status()
