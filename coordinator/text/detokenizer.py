"""Output ids to text as they come, without ever splitting a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from coordinator.text.tokenizer import TargetTokenizer

REMEMBERED_IDS = 8
"""Shown ids of an earlier attempt that can still matter: a character has at most four bytes."""


class Detokenizer:
    """Joins ids to text: the pieces together are the text of all ids, however they are cut.

    Bytes that may still become a character are held back, at most three of them; bytes that
    cannot are given as U+FFFD at once. The work for each id does not grow with the text.
    """

    def __init__(
        self,
        tokenizer: TargetTokenizer,
        resumed_token_ids: Sequence[int] = (),
        *,
        prompt_token_ids: Sequence[int] = (),
    ) -> None:
        """`resumed_token_ids`: output of an earlier attempt, whose text is not given again.

        `prompt_token_ids`: what the output continues as one text, so that a space between them is
        kept. Empty: the output is a text of its own.
        """
        self._tokens = tokenizer.token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        shown = (
            token_id for token_id in reversed(prompt_token_ids) if self._tokens.shown(token_id)
        )
        self._previous = next(shown, None)
        self.push([i for i in resumed_token_ids if self._tokens.shown(i)][-REMEMBERED_IDS:])

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that the new ids complete; may be empty."""
        return self._utf8.decode(b"".join(self._added(token_id) for token_id in token_ids))

    def finish(self) -> str:
        """The text still held back: U+FFFD for a character that never became whole."""
        return self._utf8.decode(b"", final=True)

    def _added(self, token_id: int) -> bytes:
        if not self._tokens.shown(token_id):
            return b""
        added = self._tokens.added(token_id, self._previous)
        self._previous = token_id
        return added
