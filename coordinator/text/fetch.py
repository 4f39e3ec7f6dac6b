"""Gets a worker's tokenizer, so that the coordinator needs no model files."""

from __future__ import annotations

import asyncio

from grpc import aio

from coordinator.text.tokenizer import TargetTokenizer
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2, model_pb2_grpc

FETCH_TIMEOUT_S = 30.0
LARGEST_TOKENIZER_BYTES = 256 * 1024 * 1024


class TokenizerMismatchError(Exception):
    """The files are not those that the worker's description promises, or no tokenizer."""


async def fetch_tokenizer(
    channel: aio.Channel, model: model_pb2.GetModelResponse, *, pinned_digest: str = ""
) -> TargetTokenizer | None:
    """The tokenizer of the model that a worker described; None where it has none.

    `pinned_digest`: the only digest to take, in hexadecimal; empty takes any. Raises
    TokenizerMismatchError, or AioRpcError when the worker fails.
    """
    if pinned_digest and model.tokenizer_digest != pinned_digest.lower():
        raise TokenizerMismatchError(
            f"the tokenizer's digest is {model.tokenizer_digest or 'empty'}, not the pinned one"
        )
    if not model.tokenizer_digest:
        return None
    stub = model_pb2_grpc.ModelServiceStub(channel)
    call = stub.GetTokenizer(model_pb2.GetTokenizerRequest(), timeout=FETCH_TIMEOUT_S)
    contents: dict[str, bytearray] = {}
    size = 0
    async for piece in call:
        size += len(piece.data)
        if size > LARGEST_TOKENIZER_BYTES:
            raise TokenizerMismatchError(f"more than {LARGEST_TOKENIZER_BYTES} bytes")
        contents.setdefault(piece.file_name, bytearray()).extend(piece.data)
    files = TokenizerFiles({name: bytes(content) for name, content in contents.items()})
    if files.digest != model.tokenizer_digest:
        raise TokenizerMismatchError("the files do not have the digest that GetModel names")
    try:
        return await asyncio.to_thread(TargetTokenizer.from_files, files)
    except ValueError as error:
        raise TokenizerMismatchError(str(error)) from error
