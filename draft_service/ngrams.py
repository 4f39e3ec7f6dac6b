"""Prompt lookup: what followed the last few ids where they came before in the same text.

Saxena, 2023, https://github.com/apoorvumang/prompt-lookup-decoding.
"""

from __future__ import annotations

LONGEST = 3
SHORTEST = 2

Ids = tuple[int, ...]


class NGramEnd:
    """The last ids of a text, looked up among those of the text that `after` was made of."""

    __slots__ = ("_after", "_foreseen", "_tail")

    def __init__(self, after: dict[Ids, int], tail: Ids = (), foreseen: int = 0) -> None:
        """`after`: what followed each few ids; it may grow. `foreseen`: how many of the last ids
        were found each before it came."""
        self._after = after
        self._tail = tail
        self._foreseen = foreseen

    def copy(self) -> NGramEnd:
        """Another one at the same place."""
        return NGramEnd(self._after, self._tail, self._foreseen)

    def advance(self, token_id: int) -> None:
        """The text goes on by an id."""
        found = self.following()
        foreseen = found is not None and found[0] == token_id
        self._foreseen = self._foreseen + 1 if foreseen else 0
        self._tail = (*self._tail, token_id)[-LONGEST:]

    def following(self) -> tuple[int, int] | None:
        """The id that followed the last 3 ids where they came latest, else the last 2; and how many
        ids agree: those, and the ones before them that were foreseen."""
        for length in range(len(self._tail), SHORTEST - 1, -1):
            token_id = self._after.get(self._tail[-length:])
            if token_id is not None:
                return token_id, max(length, self._foreseen + SHORTEST)
        return None


class NGramIndex:
    """A text, prepared for looking up its last ids."""

    def __init__(self) -> None:
        self._after: dict[Ids, int] = {}
        self._tail: Ids = ()
        self._end = NGramEnd(self._after)

    def extend(self, token_id: int) -> None:
        """One more id."""
        self._end.advance(token_id)
        for length in range(SHORTEST, len(self._tail) + 1):
            self._after[self._tail[-length:]] = token_id
        self._tail = (*self._tail, token_id)[-LONGEST:]

    def end(self) -> NGramEnd:
        """The text's end."""
        return self._end.copy()
