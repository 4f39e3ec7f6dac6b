"""Token ids of plain text, and of chats, that no other measurement of the run has used.

A prefix that was read before costs nothing, so each measurement takes text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from transformers import AutoTokenizer


class Corpus:
    """Python's own documentation in the tokens of one model."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the tokenizer."""
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        text = "\n\n".join(topics[name] for name in sorted(topics))
        # In parts: a tokenizer warns of texts beyond its model's context.
        self._token_ids: list[int] = [
            token_id
            for part in text.split("\n\n")
            for token_id in self._tokenizer(part + "\n\n", add_special_tokens=False)["input_ids"]
        ]
        self._place = 0

    def take(self, count: int) -> list[int]:
        """The next `count` ids; each call's are others. Raises ValueError at the text's end."""
        first, self._place = self._place, self._place + count
        if self._place > len(self._token_ids):
            raise ValueError(f"the text has {len(self._token_ids)} tokens")
        return self._token_ids[first : self._place]

    def chat(self, text: str, *, system: str | None = None) -> list[int]:
        """A user's message as the model's chat template words it, ready for the answer."""
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        token_ids: list[int] = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        return token_ids

    def text(self, count: int) -> str:
        """`take(count)` as text, which may have a few tokens more or less when read again."""
        text: str = self._tokenizer.decode(self.take(count))
        return text


def chats(corpus: Corpus, prompts: Sequence[str], *, edition: int) -> list[list[int]]:
    """Prompts as chats that share no block with those of another edition."""
    return [corpus.chat(prompt, system=f"Edition {edition}.") for prompt in prompts]
