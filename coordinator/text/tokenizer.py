"""The target's tokenizer, from the files that it serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from tokenizers import Tokenizer

from coordinator.text.chat import ChatTemplate
from outrider.errors import InvalidRequest
from outrider.tokenizer_files import (
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    TokenizerFiles,
)
from outrider.v1 import generation_pb2

LONG_TEXT = 20_000
"""Texts of more characters than this are encoded in a thread."""


class TargetTokenizer:
    """Encodes once for target and draft alike, and decodes the output."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        special_tokens: dict[str, str],
        chat_template: ChatTemplate | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._bos = special_tokens.get("bos_token")
        self._chat_template = chat_template

    @classmethod
    def from_files(cls, files: TokenizerFiles) -> TargetTokenizer:
        """From served files. Raises ValueError when they are no tokenizer."""
        try:
            tokenizer = Tokenizer.from_buffer(files.files[TOKENIZER_FILE])
        except Exception as error:
            raise ValueError(f"{TOKENIZER_FILE} is no tokenizer: {error}") from error
        special_tokens = json.loads(files.files.get(SPECIAL_TOKENS_FILE, b"{}"))
        source = files.files.get(CHAT_TEMPLATE_FILE)
        template = ChatTemplate(source.decode(), special_tokens=special_tokens) if source else None
        return cls(tokenizer, special_tokens=special_tokens, chat_template=template)

    async def encode(self, text: str) -> list[int]:
        """Text as it stands → ids, with the tokenizer's own BOS, and never two of them."""
        has_bos = self._bos is not None and text.startswith(self._bos)
        if has_bos:
            return await self._encode(text, special_tokens=False)
        return await self._encode(text, special_tokens=True)

    async def encode_chat(self, messages: Sequence[generation_pb2.ChatMessage]) -> list[int]:
        """A chat → ids. The template writes the special tokens, so none are added.

        Raises InvalidRequest when the model has no template or it refuses the messages.
        """
        if self._chat_template is None:
            raise InvalidRequest("chat", "unset, since the model has no chat template")
        return await self._encode(self._chat_template.render(messages), special_tokens=False)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Ids → text, special tokens left out; U+FFFD for bytes that are no character."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def token(self, token_id: int) -> str | None:
        """The token an id stands for; None for an id that stands for nothing."""
        token: str | None = self._tokenizer.id_to_token(token_id)
        return token

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    async def _encode(self, text: str, *, special_tokens: bool) -> list[int]:
        def encode() -> list[int]:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special_tokens).ids
            return ids

        if len(text) > LONG_TEXT:
            return await asyncio.to_thread(encode)
        return encode()
