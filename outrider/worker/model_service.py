"""What a worker says about its model, its tokenizer and itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from outrider.rpc.server import ServicerContext
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.model_description import ModelDescription

PIECE_BYTES = 1 << 20


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
