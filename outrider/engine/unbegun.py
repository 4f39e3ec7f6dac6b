"""The jobs whose first forward has not begun: they can still be taken back."""

from __future__ import annotations

from typing import Any

from outrider.engine.ticket import AnswersTo


class Unbegun:
    """Whoever takes a job out first decides what becomes of it. For any thread.

    A set's own operations are atomic, so no lock is needed.
    """

    def __init__(self) -> None:
        self._tickets: set[AnswersTo[Any]] = set()

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, ticket: object) -> bool:
        return ticket in self._tickets

    def add(self, ticket: AnswersTo[Any]) -> None:
        """A job was submitted."""
        self._tickets.add(ticket)

    def take(self, ticket: AnswersTo[Any]) -> bool:
        """Takes it out; False if somebody else did before."""
        try:
            self._tickets.remove(ticket)
        except KeyError:
            return False
        return True

    def take_any(self) -> AnswersTo[Any] | None:
        """Takes one out; None if there is none."""
        try:
            return self._tickets.pop()
        except KeyError:
            return None
