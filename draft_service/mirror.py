"""What the coordinator's draft tree holds of this stream: ids and names, no state.

A committed prefix is found in it by its length and its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import pairwise

from draft_service.draft_job import KnownToken
from draft_service.proposal import DraftedToken
from outrider.prefix import extend_digest

_COMMITTED = DraftedToken(0)


@dataclass(slots=True, eq=False)
class MirrorNode:
    """A drafted token that was sent. `length`, `digest`: of the ids up to it, itself included.

    It has several names when it was sent again.
    """

    names: list[int]
    token: DraftedToken
    length: int
    digest: int
    drawn: MirrorNode | None = None
    guesses: dict[int, MirrorNode] = field(default_factory=dict)

    @property
    def children(self) -> list[MirrorNode]:
        """The drawn one first."""
        return [*([self.drawn] if self.drawn else ()), *self.guesses.values()]

    def find(self, token_id: int, *, guess: bool) -> MirrorNode | None:
        """The child that such a token would be, if it is there."""
        if guess:
            return self.guesses.get(token_id)
        drawn = self.drawn
        return drawn if drawn is not None and drawn.token.token_id == token_id else None


class Mirror:
    """Tokens that were sent and are not decided yet, below the last committed prefix."""

    def __init__(self) -> None:
        self._root: MirrorNode | None = None
        self._by_name: dict[int, MirrorNode] = {}

    @property
    def empty(self) -> bool:
        """No prefix is known as committed."""
        return self._root is None

    @property
    def names(self) -> list[int]:
        """Those of the chain: the drawn tokens that follow the committed prefix."""
        return [node.names[0] for node in self._path[1:]]

    @property
    def chain(self) -> list[KnownToken]:
        """Those tokens, and the guesses that were sent beside each."""
        return [
            KnownToken(node.token.token_id, node.token.alternatives, tuple(before.guesses))
            for before, node in pairwise(self._path)
        ]

    def goes_on(self, names: Set[int], *, length: int, digest: int) -> bool:
        """Whether such a prefix ends in the committed one, or on the chain that follows it in a
        token with one of these names."""
        return any(
            node.length == length and node.digest == digest
            for node in self._path
            if node is self._root or not names.isdisjoint(node.names)
        )

    def commit(self, *, length: int, digest: int, name: int | None = None) -> None:
        """That prefix is committed: what does not follow it is forgotten.

        `name`: another one for it, which tokens may hang on.
        """
        root = next(
            (node for node in self._nodes() if node.length == length and node.digest == digest),
            None,
        )
        self._root = root or MirrorNode([], _COMMITTED, length, digest)
        if name is not None:
            self._root.names.append(name)
        self._by_name = {name: node for node in self._nodes() for name in node.names}

    def add(self, name: int, token: DraftedToken, *, parent: int, guess: bool = False) -> None:
        """A token was sent under that name, hung on `parent`.

        One whose parent is forgotten is not kept, nor another one where one was drawn.
        """
        node = self._by_name.get(parent)
        if node is None:
            return
        child = node.find(token.token_id, guess=guess)
        if child is None and (guess or node.drawn is None):
            digest = extend_digest(node.digest, token.token_id)
            child = MirrorNode([], token, node.length + 1, digest)
            if guess:
                node.guesses[token.token_id] = child
            else:
                node.drawn = child
        if child is not None:
            child.names.append(name)
            self._by_name[name] = child

    def clear(self) -> None:
        """Forgets everything."""
        self._root = None
        self._by_name.clear()

    @property
    def _path(self) -> list[MirrorNode]:
        """The committed prefix and the chain that follows it."""
        path: list[MirrorNode] = []
        node = self._root
        while node is not None:
            path.append(node)
            node = node.drawn
        return path

    def _nodes(self) -> Iterator[MirrorNode]:
        heap = [self._root] if self._root else []
        while heap:
            node = heap.pop()
            yield node
            heap.extend(node.children)
