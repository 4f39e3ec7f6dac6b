"""Where the end of a text came before: what the ways of finding that have in common."""

from __future__ import annotations

from typing import Protocol, Self

from draft_service.suffix_automaton import ROOT, Cursor, SuffixAutomaton


class TextEnd(Protocol):
    """The end of a text, which may go on otherwise than the text that it was taken from."""

    def advance(self, token_id: int) -> None:
        """The text goes on by an id."""
        ...

    def following(self) -> tuple[int, int] | None:
        """The id that came next where this end, or what is left of it, came before; and how many
        ids agree. None: it did not."""
        ...

    def copy(self) -> Self:
        """Another one at the same place."""
        ...


class TextIndex(Protocol):
    """One text that grows, prepared for looking up its own end."""

    def extend(self, token_id: int) -> None:
        """One more id."""
        ...

    def end(self) -> TextEnd:
        """Its end."""
        ...


class SuffixIndex:
    """Finds the longest end of the text that came before."""

    def __init__(self) -> None:
        self._automaton = SuffixAutomaton()
        self._end = ROOT

    def extend(self, token_id: int) -> None:
        """One more id."""
        self._end = self._automaton.extend(self._end, token_id)

    def end(self) -> Cursor:
        """The text's end."""
        return Cursor(self._automaton, self._end)
