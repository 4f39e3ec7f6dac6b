"""The target's tokenizer, from the files that it serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence

import structlog
from jinja2 import TemplateError
from tokenizers import Tokenizer

from coordinator.text.chat import ChatTemplate
from coordinator.text.token_bytes import TokenBytes
from outrider.errors import InvalidRequest
from outrider.tokenizer_files import (
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    TokenizerFiles,
)
from outrider.v1 import generation_pb2

log = structlog.get_logger(__name__)

LONG_TEXT = 2_000
"""Texts of more characters are encoded in a thread: from here on it takes a few milliseconds."""


class TargetTokenizer:
    """Encodes once for target and draft alike, and knows what each id stands for."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        special_tokens: Mapping[str, str],
        chat_template: ChatTemplate | None = None,
    ) -> None:
        """`special_tokens`: name, such as `bos_token` → its text."""
        # What was set for training would cut prompts or fill them up.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._bos = special_tokens.get("bos_token")
        self._chat_template = chat_template
        self.token_bytes = TokenBytes(tokenizer)
        ids = tokenizer.get_vocab(with_added_tokens=True).values()
        self.vocabulary_size: int = 1 + max(ids, default=-1)
        """One more than the largest id."""

    @classmethod
    def from_files(cls, files: TokenizerFiles) -> TargetTokenizer:
        """From served files; slow. Raises ValueError when they are no tokenizer."""
        try:
            tokenizer = Tokenizer.from_buffer(files.files[TOKENIZER_FILE])
        except Exception as error:
            raise ValueError(f"{TOKENIZER_FILE} is no tokenizer: {error}") from error
        special_tokens = _special_tokens(files.files.get(SPECIAL_TOKENS_FILE, b"{}"))
        template = _chat_template(files.files.get(CHAT_TEMPLATE_FILE), special_tokens)
        return cls(tokenizer, special_tokens=special_tokens, chat_template=template)

    async def encode(self, text: str) -> list[int]:
        """Text as it stands → ids, with the tokenizer's own BOS, and never two of them.

        Raises InvalidRequest for a text that the tokenizer cannot take.
        """
        # A text that brings its BOS was rendered by a template, which wrote all special tokens.
        has_bos = bool(self._bos) and text.startswith(self._bos or "")
        encode = self._as_rendered if has_bos else self._with_special_tokens
        return await _run(lambda: encode(text), length=len(text))

    async def encode_chat(self, messages: Sequence[generation_pb2.ChatMessage]) -> list[int]:
        """A chat → ids. The template writes the special tokens, so none are added.

        Raises InvalidRequest when the model has no template or it refuses the messages.
        """
        template = self._chat_template
        if template is None:
            raise InvalidRequest("chat", "unset, since the model has no chat template")
        return await _run(
            lambda: self._as_rendered(template.render(messages)),
            length=sum(len(message.content) for message in messages),
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Ids → text, special tokens left out; U+FFFD for bytes that are no character."""
        shown = [token_id for token_id in token_ids if self.token_bytes.shown(token_id)]
        before = [None, *shown]
        return b"".join(
            self.token_bytes.added(token_id, previous)
            for token_id, previous in zip(shown, before, strict=False)
        ).decode(errors="replace")

    def token(self, token_id: int) -> str | None:
        """The token an id stands for; None for an id that stands for nothing."""
        token: str | None = self._tokenizer.id_to_token(token_id)
        return token

    def _with_special_tokens(self, text: str) -> list[int]:
        return self._ids(lambda: self._tokenizer.encode(text, add_special_tokens=True).ids)

    def _as_rendered(self, text: str) -> list[int]:
        return self._ids(lambda: self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _ids(self, encode: Callable[[], list[int]]) -> list[int]:
        try:
            return encode()
        except Exception as error:  # The library has no narrower one.
            raise InvalidRequest("prompt", "text that the model's tokenizer takes") from error


def _chat_template(source: bytes | None, special_tokens: Mapping[str, str]) -> ChatTemplate | None:
    """A template that cannot be compiled costs the chats only, not the model."""
    if not source:
        return None
    try:
        return ChatTemplate(source.decode(), special_tokens=special_tokens)
    except (TemplateError, ValueError) as error:
        log.warning("chat template not usable", error=str(error))
        return None


async def _run(encode: Callable[[], list[int]], *, length: int) -> list[int]:
    """Here for short texts, in a thread for long ones: the tokenizer works outside the GIL."""
    return await asyncio.to_thread(encode) if length > LONG_TEXT else encode()


def _special_tokens(content: bytes) -> dict[str, str]:
    tokens = json.loads(content)
    if not isinstance(tokens, dict) or not all(isinstance(text, str) for text in tokens.values()):
        raise ValueError(f"{SPECIAL_TOKENS_FILE} is not an object of texts")
    return tokens
