"""How a model's chat template words a chat, in token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from outrider.distill.errors import DistillError

MARK = "\u2063outrider\u2063"
"""Stands for the user's words to find where they go; no template makes anything of it."""


class ChatForm:
    """A tokenizer and the template for chats that comes with it."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the tokenizer's files. Raises DistillError."""
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            raise DistillError(f"{folder}: its tokenizer cannot be read: {error}") from error
        self._folder = folder

    @property
    def has_template(self) -> bool:
        """Whether chats can be worded at all."""
        return bool(self._tokenizer.chat_template)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """A chat, ready for the answer. Raises DistillError without a template."""
        return self._ids(self._worded(messages))

    def user_turn(self) -> tuple[list[int], list[int]]:
        """What stands before a user's words in a chat that they begin, and what after them, ready
        for the answer. Raises DistillError."""
        before, mark, after = self._worded([{"role": "user", "content": MARK}]).partition(MARK)
        if not mark:
            raise DistillError(f"{self._folder}: its chat template leaves out the user's words")
        return self._ids(before), self._ids(after)

    def text(self, text: str) -> list[int]:
        """Plain text, without the ids that a tokenizer puts around it."""
        return self._ids(text)

    def _worded(self, messages: Sequence[Mapping[str, str]]) -> str:
        if not self.has_template:
            raise DistillError(
                f"{self._folder}: its tokenizer has no chat template, so no chats can be written "
                f"with it: give prompts as plain text (--text), or a target that has one"
            )
        try:
            worded: str = self._tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=False
            )
        except Exception as error:
            raise DistillError(f"{self._folder}: its chat template fails: {error}") from error
        return worded

    def _ids(self, text: str) -> list[int]:
        token_ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return token_ids
