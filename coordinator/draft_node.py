"""A token in the draft tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.replica import Replica
from outrider.v1 import common_pb2


@dataclass(slots=True, eq=False)
class DraftNode:
    """A token, how long the sequence is with it, and what hangs on it.

    `source`: who drafted it. `copied`: from earlier text, not drawn by a model. `names`: its ids in
    the draft's stream. `drawn`: the child that may be verified; `guesses`: the others, by token id.
    """

    token: common_pb2.DraftToken
    length: int
    source: Replica | None = None
    copied: bool = False
    names: list[int] = field(default_factory=list)
    drawn: DraftNode | None = None
    guesses: dict[int, DraftNode] = field(default_factory=dict)

    @property
    def children(self) -> list[DraftNode]:
        """The drawn one first."""
        return [*([self.drawn] if self.drawn else ()), *self.guesses.values()]

    def child(self, token_id: int) -> DraftNode | None:
        """The one with that token."""
        if self.drawn is not None and self.drawn.token.token_id == token_id:
            return self.drawn
        return self.guesses.get(token_id)


def without_place(token: common_pb2.DraftToken) -> common_pb2.DraftToken:
    """The token as the target takes it: its place in the chain says what it continues.

    Changed in place: a copy would be parsed anew.
    """
    token.ClearField("node_id")
    token.ClearField("parent")
    token.ClearField("guess")
    token.ClearField("copied")
    token.DiscardUnknownFields()
    return token
