"""The embedded model's tokenizer, as served, does what transformers does with its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from coordinator.text.detokenizer import Detokenizer
from coordinator.text.tokenizer import TargetTokenizer
from outrider.engine.embedded import embedded_folder
from outrider.v1 import generation_pb2
from outrider.worker.tokenizer_files import read_tokenizer_files

pytestmark = pytest.mark.embedded

TEXTS = [
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
    "  spaces   and\ttabs\r\n\n",
    "👩‍👩‍👧 🇰🇷 한국어 e\u0301 \ufffd שלום",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "",
]
CHATS = [
    [("user", "Hi 🙂")],
    [("system", "Be brief."), ("user", "1"), ("assistant", "2"), ("user", "3")],
]
CODES = {
    "system": generation_pb2.CHAT_ROLE_SYSTEM,
    "user": generation_pb2.CHAT_ROLE_USER,
    "assistant": generation_pb2.CHAT_ROLE_ASSISTANT,
}


@pytest.fixture(scope="module")
def pair() -> Path:
    """The folders of the embedded pair, in the cache that `outrider` itself uses."""
    cache = Path(os.environ.get("OUTRIDER_CACHE_DIR", "~/.cache/outrider")).expanduser()
    return embedded_folder(cache, lambda step: None)


@pytest.fixture(scope="module")
def served(pair: Path) -> TargetTokenizer:
    return TargetTokenizer.from_files(read_tokenizer_files(pair / "target"))


@pytest.fixture(scope="module")
def original(pair: Path) -> Any:
    return AutoTokenizer.from_pretrained(pair / "target")


def test_target_and_draft_have_the_same_digest(pair: Path) -> None:
    digests = {read_tokenizer_files(pair / role).digest for role in ("target", "draft")}
    assert len(digests) == 1
    assert len(digests.pop()) == 64


@pytest.mark.parametrize("text", TEXTS)
async def test_texts_become_the_same_ids(served: TargetTokenizer, original: Any, text: str) -> None:
    assert await served.encode(text) == original.encode(text)


@pytest.mark.parametrize("chat", CHATS, ids=["short", "long"])
async def test_chats_become_the_same_ids(
    served: TargetTokenizer, original: Any, chat: list[tuple[str, str]]
) -> None:
    wanted = original.apply_chat_template(
        [{"role": role, "content": content} for role, content in chat],
        add_generation_prompt=True,
        return_dict=False,
    )
    ids = await served.encode_chat(
        [generation_pb2.ChatMessage(role=CODES[role], content=content) for role, content in chat]
    )
    assert ids == wanted
    rendered = original.decode(wanted)
    assert await served.encode(rendered) == wanted


@pytest.mark.parametrize("size", range(1, 6))
async def test_streamed_text_is_the_text(served: TargetTokenizer, original: Any, size: int) -> None:
    ids = await served.encode("".join(TEXTS) + "🙂")
    detokenizer = Detokenizer(served)
    pieces = [detokenizer.push(ids[i : i + size]) for i in range(0, len(ids), size)]
    text = "".join([*pieces, detokenizer.finish()])
    assert text == original.decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    assert text.endswith("🙂")
