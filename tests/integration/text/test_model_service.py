"""Workers describe their model and serve its tokenizer in pieces over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio

from outrider import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_service import PIECE_BYTES, Described, ModelServicer
from outrider.worker.slot import WorkerSlot

if TYPE_CHECKING:
    from conftest import Describe, ServeModel

FILES = {
    "tokenizer.json": bytes(range(256)) * (4096 * 2 + 1),
    "special_tokens.json": b"{}",
    "chat_template.jinja": b"",
}


def description(files: TokenizerFiles) -> ModelDescription:
    return ModelDescription(
        name="m",
        role=model_pb2.WORKER_ROLE_TARGET,
        weights_digest="w",
        vocabulary_size=100,
        context_length=200,
        replica_id="r",
        dtype="float64",
        device="cpu",
        eos_token_ids=(2, 5),
        bos_token_id=0,
        max_draft_length=16,
        features=("b", "a"),
        tokenizer=files,
    )


@pytest.fixture
async def stub(
    slot: WorkerSlot[Described], serve_model: ServeModel
) -> model_pb2_grpc.ModelServiceStub:
    return model_pb2_grpc.ModelServiceStub(await serve_model(ModelServicer(slot.get)))


async def test_the_description(stub: model_pb2_grpc.ModelServiceStub, describe: Describe) -> None:
    files = TokenizerFiles(FILES)
    describe(description(files))
    assert await stub.GetModel(model_pb2.GetModelRequest()) == model_pb2.GetModelResponse(
        name="m",
        role=model_pb2.WORKER_ROLE_TARGET,
        protocol_version=OLDEST_PROTOCOL_VERSION,
        newest_protocol_version=PROTOCOL_VERSION,
        features=["a", "b"],
        weights_digest="w",
        vocabulary_size=100,
        tokenizer_digest=files.digest,
        eos_token_ids=[2, 5],
        bos_token_id=0,
        context_length=200,
        max_draft_length=16,
        replica_id="r",
        build_version=__version__,
        dtype="float64",
        device="cpu",
    )
    status = await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())
    assert (status.rounds, status.queue_depth) == (7, 2)


async def test_an_unset_bos_is_not_the_id_zero(
    stub: model_pb2_grpc.ModelServiceStub, describe: Describe
) -> None:
    unset = ModelDescription(
        name="m",
        role=model_pb2.WORKER_ROLE_DRAFT,
        weights_digest="",
        vocabulary_size=8,
        context_length=8,
        replica_id="r",
        dtype="float64",
        device="cpu",
    )
    describe(unset)
    model = await stub.GetModel(model_pb2.GetModelRequest())
    assert not model.HasField("bos_token_id")
    assert model.tokenizer_digest == ""


async def test_files_come_in_order_and_in_pieces(
    stub: model_pb2_grpc.ModelServiceStub, describe: Describe
) -> None:
    files = TokenizerFiles(FILES)
    describe(description(files))
    pieces = [piece async for piece in stub.GetTokenizer(model_pb2.GetTokenizerRequest())]
    assert max(len(piece.data) for piece in pieces) == PIECE_BYTES == 1 << 20
    assert {piece.tokenizer_digest for piece in pieces} == {files.digest}
    names = [piece.file_name for piece in pieces]
    assert names == sorted(names, key=list(FILES).index)
    for name, content in FILES.items():
        assert b"".join(piece.data for piece in pieces if piece.file_name == name) == content
    assert names.count("chat_template.jinja") == 1, "an empty file is a file"


async def test_a_model_without_tokenizer_serves_no_pieces(
    stub: model_pb2_grpc.ModelServiceStub, describe: Describe
) -> None:
    describe(description(TokenizerFiles()))
    assert [piece async for piece in stub.GetTokenizer(model_pb2.GetTokenizerRequest())] == []


@pytest.mark.parametrize("method", ["GetModel", "GetTokenizer", "GetStatus"])
async def test_while_the_model_loads_callers_are_told_to_come_again(
    stub: model_pb2_grpc.ModelServiceStub, method: str
) -> None:
    requests = {
        "GetModel": model_pb2.GetModelRequest(),
        "GetTokenizer": model_pb2.GetTokenizerRequest(),
        "GetStatus": model_pb2.ModelServiceGetStatusRequest(),
    }
    call = getattr(stub, method)(requests[method])
    with pytest.raises(aio.AioRpcError, match="still loading") as caught:
        await (call if method != "GetTokenizer" else call.read())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
