"""Output ids to text as they come, without ever splitting a character."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

REPLACEMENT = "\ufffd"
MOST_HELD_IDS = 64


class Decoder(Protocol):
    """What turns ids into text."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids that follow each other."""
        ...


class Detokenizer:
    """Joins ids to text: the pieces together are the text of all ids.

    Decoding depends on neighbours (a leading space, the bytes of one character), so each piece is
    the difference between the text of a few recent ids with and without the new ones. Text that
    ends in an incomplete character is held back until it is whole, or until it cannot become so.
    """

    def __init__(self, decoder: Decoder, resumed_token_ids: Iterable[int] = ()) -> None:
        """`resumed_token_ids`: output of an earlier attempt, whose text is not given again."""
        self._decoder = decoder
        self._recent: list[int] = []
        self._given = 0
        self._given_text = ""
        self.push(resumed_token_ids)

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that the new ids complete; may be empty."""
        pieces = [self._push_one(token_id) for token_id in token_ids]
        return "".join(pieces)

    def finish(self) -> str:
        """The text still held back, as it is."""
        text = self._decoder.decode(self._recent)
        held = text[len(self._given_text) :]
        self._recent, self._given, self._given_text = [], 0, ""
        return held

    def _push_one(self, token_id: int) -> str:
        self._recent.append(token_id)
        text = self._decoder.decode(self._recent)
        held = len(self._recent) - self._given
        if text.endswith(REPLACEMENT) and held < MOST_HELD_IDS:
            return ""
        if len(text) <= len(self._given_text):
            return ""
        piece = text[len(self._given_text) :]
        self._recent = self._recent[self._given :]
        self._given = len(self._recent)
        self._given_text = self._decoder.decode(self._recent)
        return piece
