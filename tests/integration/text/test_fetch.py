"""The coordinator takes a tokenizer from a worker, and only the one that was promised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio

from coordinator.text import fetch
from coordinator.text.fetch import TokenizerMismatchError, fetch_tokenizer
from outrider.errors import Exhausted
from outrider.testing.small_tokenizers import adding_bos, byte_level_tokenizer, tokenizer_files
from outrider.tokenizer_files import TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import generation_pb2, model_pb2
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_service import Described, ModelServicer
from outrider.worker.slot import WorkerSlot

if TYPE_CHECKING:
    from conftest import Describe, ServeModel

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
FILES = tokenizer_files(adding_bos(byte_level_tokenizer()), chat_template=TEMPLATE)


def described(digest: str) -> model_pb2.GetModelResponse:
    return model_pb2.GetModelResponse(tokenizer_digest=digest)


@pytest.fixture
async def channel(
    describe: Describe, slot: WorkerSlot[Described], serve_model: ServeModel
) -> aio.Channel:
    """A channel to a worker that serves FILES."""
    describe(description(FILES))
    return await serve_model(ModelServicer(slot.get))


def description(files: TokenizerFiles) -> ModelDescription:
    return ModelDescription(
        name="m",
        role=model_pb2.WORKER_ROLE_TARGET,
        weights_digest="",
        vocabulary_size=300,
        context_length=64,
        replica_id="r",
        dtype="float64",
        device="cpu",
        tokenizer=files,
    )


@pytest.mark.parametrize("pinned", ["", FILES.digest, FILES.digest.upper()])
async def test_a_fetched_tokenizer_encodes_and_decodes(channel: aio.Channel, pinned: str) -> None:
    served = await fetch_tokenizer(channel, described(FILES.digest), pinned_digest=pinned)
    assert served is not None
    ids = await served.encode("한 the")
    assert ids[0] == 1
    assert served.decode(ids) == "한 the"
    message = generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content="한 the")
    assert await served.encode_chat([message]) == ids


async def test_a_model_without_tokenizer_gives_none(channel: aio.Channel) -> None:
    assert await fetch_tokenizer(channel, described("")) is None


@pytest.mark.parametrize("digest", ["", FILES.digest])
async def test_another_digest_than_the_pinned_one_is_not_taken(
    channel: aio.Channel, digest: str
) -> None:
    with pytest.raises(TokenizerMismatchError, match="not the pinned one"):
        await fetch_tokenizer(channel, described(digest), pinned_digest="0" * 64)


async def test_other_files_than_described_are_not_taken(channel: aio.Channel) -> None:
    with pytest.raises(TokenizerMismatchError, match="digest"):
        await fetch_tokenizer(channel, described("0" * 64))


async def test_files_that_are_no_tokenizer_are_not_taken(
    describe: Describe, slot: WorkerSlot[Described], serve_model: ServeModel
) -> None:
    files = TokenizerFiles({TOKENIZER_FILE: b"{}"})
    describe(description(files))
    channel = await serve_model(ModelServicer(slot.get))
    with pytest.raises(TokenizerMismatchError, match="no tokenizer"):
        await fetch_tokenizer(channel, described(files.digest))


async def test_a_stream_without_end_is_cut(
    monkeypatch: pytest.MonkeyPatch, slot: WorkerSlot[Described], serve_model: ServeModel
) -> None:
    sent = 0

    class Endless(ModelServicer):
        async def GetTokenizer(  # noqa: N802
            self, request: model_pb2.GetTokenizerRequest, context: object
        ) -> AsyncIterator[model_pb2.GetTokenizerResponse]:
            nonlocal sent
            while True:
                sent += 1
                yield model_pb2.GetTokenizerResponse(file_name="a", data=bytes(100_000))

    monkeypatch.setattr(fetch, "LARGEST_TOKENIZER_BYTES", 1_000_000)
    channel = await serve_model(Endless(slot.get))
    with pytest.raises(TokenizerMismatchError, match="more than 1000000 bytes"):
        await fetch_tokenizer(channel, described("0" * 64))
    assert sent >= 10


async def test_a_worker_that_fails_half_way_gives_no_tokenizer(
    slot: WorkerSlot[Described], serve_model: ServeModel
) -> None:
    class Failing(ModelServicer):
        async def GetTokenizer(  # noqa: N802
            self, request: model_pb2.GetTokenizerRequest, context: object
        ) -> AsyncIterator[model_pb2.GetTokenizerResponse]:
            content = FILES.files[TOKENIZER_FILE]
            yield model_pb2.GetTokenizerResponse(file_name=TOKENIZER_FILE, data=content[:100])
            raise Exhausted("no room")

    channel = await serve_model(Failing(slot.get))
    with pytest.raises(aio.AioRpcError) as caught:
        await fetch_tokenizer(channel, described(FILES.digest))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
