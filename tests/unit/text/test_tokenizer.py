"""Texts and chats to ids: whole, with one BOS, and refused with a reason (FAULTS F4)."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from coordinator.text import tokenizer as module
from coordinator.text.tokenizer import TargetTokenizer
from outrider.errors import InvalidRequest
from outrider.testing.small_tokenizers import (
    adding_bos,
    byte_fallback_tokenizer,
    byte_level_tokenizer,
    tokenizer_files,
)
from outrider.tokenizer_files import SPECIAL_TOKENS_FILE, TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import generation_pb2

BOS = 1
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
CHAT = [generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content="hi 🙂")]


@pytest.fixture
def bos_tokenizer() -> TargetTokenizer:
    library = adding_bos(byte_level_tokenizer())
    return TargetTokenizer.from_files(tokenizer_files(library, chat_template=TEMPLATE))


async def test_a_text_gets_the_tokenizers_own_bos(bos_tokenizer: TargetTokenizer) -> None:
    ids = await bos_tokenizer.encode("user: hi")
    assert ids[0] == BOS
    assert ids.count(BOS) == 1


async def test_a_tokenizer_without_bos_adds_none() -> None:
    plain = TargetTokenizer.from_files(tokenizer_files(byte_level_tokenizer()))
    assert BOS not in await plain.encode("user: hi")


async def test_a_chat_and_its_rendered_text_are_the_same_ids(
    bos_tokenizer: TargetTokenizer,
) -> None:
    from_chat = await bos_tokenizer.encode_chat(CHAT)
    assert from_chat == await bos_tokenizer.encode("<s>user: hi 🙂\n")
    assert from_chat.count(BOS) == 1
    assert bos_tokenizer.decode(from_chat) == "user: hi 🙂\n"


async def test_special_tokens_in_a_text_are_read_as_such(bos_tokenizer: TargetTokenizer) -> None:
    ids = await bos_tokenizer.encode("a</s>b")
    assert ids.count(2) == 1


async def test_truncation_and_padding_of_training_are_off() -> None:
    library = byte_level_tokenizer()
    library.enable_truncation(4)
    library.enable_padding(length=32)
    served = TargetTokenizer.from_files(tokenizer_files(library))
    assert len(await served.encode("a" * 20)) == 20
    assert len(await served.encode("a")) == 1


@pytest.mark.parametrize("longer", [0, 1])
async def test_long_texts_leave_the_event_loop_free(
    monkeypatch: pytest.MonkeyPatch, longer: int
) -> None:
    served = TargetTokenizer.from_files(tokenizer_files(byte_level_tokenizer()))
    threads: list[threading.Thread] = []
    as_ids = served._ids

    def watched(encode: object) -> list[int]:
        threads.append(threading.current_thread())
        return as_ids(encode)  # type: ignore[arg-type]

    monkeypatch.setattr(served, "_ids", watched)
    text = "ä" * (module.LONG_TEXT + longer)
    assert len(await served.encode(text)) == 2 * len(text)
    assert (threads[0] is threading.main_thread()) == (longer == 0)


async def test_texts_encoded_at_the_same_time_do_not_mix(bos_tokenizer: TargetTokenizer) -> None:
    texts = [f"{i} 🙂" * i * 200 for i in range(1, 8)]
    together = await asyncio.gather(*map(bos_tokenizer.encode, texts))
    assert [bos_tokenizer.decode(ids) for ids in together] == texts


async def test_a_model_without_template_refuses_chats() -> None:
    plain = TargetTokenizer.from_files(tokenizer_files(byte_level_tokenizer()))
    with pytest.raises(InvalidRequest, match="no chat template") as caught:
        await plain.encode_chat(CHAT)
    assert caught.value.field == "chat"


async def test_a_broken_template_costs_the_chats_only() -> None:
    files = tokenizer_files(byte_level_tokenizer(), chat_template="{% for %}")
    served = TargetTokenizer.from_files(files)
    assert await served.encode("a")
    with pytest.raises(InvalidRequest):
        await served.encode_chat(CHAT)


async def test_a_text_the_tokenizer_cannot_take_is_refused() -> None:
    library = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="missing"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    served = TargetTokenizer(library, special_tokens={})
    assert await served.encode("a b") == [0, 1]
    with pytest.raises(InvalidRequest):
        await served.encode("a c")


def test_ids_and_tokens() -> None:
    served = TargetTokenizer.from_files(tokenizer_files(byte_fallback_tokenizer()))
    assert served.token(1) == "<s>"
    assert served.token(3) == "<0x00>"
    assert served.token(served.vocabulary_size - 1) is not None
    assert served.token(served.vocabulary_size) is None


@pytest.mark.parametrize(
    "files",
    [
        {},
        {TOKENIZER_FILE: b"{}"},
        {TOKENIZER_FILE: b"\xff"},
        {TOKENIZER_FILE: byte_level_tokenizer().to_str().encode(), SPECIAL_TOKENS_FILE: b"["},
        {TOKENIZER_FILE: byte_level_tokenizer().to_str().encode(), SPECIAL_TOKENS_FILE: b"[]"},
        {
            TOKENIZER_FILE: byte_level_tokenizer().to_str().encode(),
            SPECIAL_TOKENS_FILE: json.dumps({"bos_token": 1}).encode(),
        },
    ],
)
def test_files_that_are_no_tokenizer_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"."):
        TargetTokenizer.from_files(TokenizerFiles(files))
