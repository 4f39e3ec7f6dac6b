"""Drafted continuations that are not decided yet, rooted at the committed prefix.

Drafted tokens hang on the tree by their parents; a verdict moves the root down along the output.
What is below the root then is still valid, whatever made it: a draft that went on by itself, a
bonus it foresaw, or a side branch. The output law does not depend on any of it. A node has at most
one *drawn* child, the first to arrive, with its own q; only drawn tokens are ever verified. All
others are *guesses*: they are there to be looked up after a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from coordinator.draft_node import DraftNode, without_place
from coordinator.replica import Replica
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2

MAX_NODES = 8192
"""More than any round asks for: what a draft sends beyond is not kept."""


class Arrival(Enum):
    """What became of a drafted token when it came."""

    KEPT = auto()
    """It hangs below the root, or was there already."""
    CAME_TRUE = auto()
    """The output has passed its place, with this very token."""
    CAME_FALSE = auto()
    """The output has passed its place, with another token."""
    STALE = auto()
    """It continues nothing that the output may still become, or more than was asked for."""


class Step(NamedTuple):
    """What was found in the tree when one output token was committed.

    `drawn`: a token that might have been verified was waiting at its place. `foreseen`: that token,
    or a guess beside it, was the output; `guess`: it was the guess. `copied`: the token that was
    waiting was copied, as were the `run` output tokens right before it.
    """

    drawn: bool
    foreseen: bool
    guess: bool
    copied: bool = False
    run: int = 0


class DraftTree:
    """One generation's drafted tokens. Node ids are those of one draft stream: see `cut_off`."""

    def __init__(self, prefix: TokenPrefix) -> None:
        """`prefix`: what is committed; it is extended by `advance` alone."""
        self._prefix = prefix
        self._root = DraftNode(common_pb2.DraftToken(), len(prefix))
        self._nodes: dict[int, DraftNode] = {}
        self._passed: dict[int, int] = {}
        self._rounds: dict[int, int] = {}
        self._on_guess = False
        self.run = 0
        """How many of the last output tokens, up to the root, copied ones had foreseen."""
        self.size = 0
        """Tokens that hang below the root."""
        self.dropped = 0
        """Tokens that were kept and then left behind, rejected ones included."""

    @property
    def depth(self) -> int:
        """How many drawn tokens follow the root in a chain."""
        node, depth = self._root.drawn, 0
        while node is not None:
            node, depth = node.drawn, depth + 1
        return depth

    @property
    def on_guess(self) -> bool:
        """The last output token was a guess: what follows was drafted below it."""
        return self._on_guess

    def chain(self, limit: int) -> list[common_pb2.DraftToken]:
        """The drawn tokens that follow the root, in order, at most `limit`; places left out."""
        tokens: list[common_pb2.DraftToken] = []
        node = self._root.drawn
        while node is not None and len(tokens) < limit:
            tokens.append(node.token)
            node = node.drawn
        return tokens

    def sources(self, limit: int) -> list[Replica | None]:
        """Who drafted the tokens of `chain`."""
        sources: list[Replica | None] = []
        node = self._root.drawn
        while node is not None and len(sources) < limit:
            sources.append(node.source)
            node = node.drawn
        return sources

    def copied(self, limit: int) -> list[bool]:
        """Which of the tokens of `chain` were copied."""
        flags: list[bool] = []
        node = self._root.drawn
        while node is not None and len(flags) < limit:
            flags.append(node.copied)
            node = node.drawn
        return flags

    def begin_round(self, number: int) -> None:
        """A draft round with that number was sent; the whole prefix was committed then."""
        self._rounds[number] = len(self._prefix)

    def answered(self, number: int) -> None:
        """The draft has got as far as that round: what hangs on earlier ones can no more come."""
        length = self._rounds.get(number)
        if length is None:
            return
        self._rounds = {n: at for n, at in self._rounds.items() if at >= length}
        self._passed = {name: at for name, at in self._passed.items() if at >= length}

    def add(
        self, token: common_pb2.DraftToken, *, until_length: int, source: Replica | None = None
    ) -> Arrival:
        """Hangs a drafted token on the tree. It becomes the tree's own.

        `source`: who drafted it. A token that would make the sequence longer than `until_length`
        ids is not kept.
        """
        name = token.node_id
        parent = self._parent(token)
        if isinstance(parent, int):
            if self._prefix.token_ids[parent] != token.token_id:
                return Arrival.CAME_FALSE
            if len(self._passed) < MAX_NODES:
                self._passed[name] = parent + 1
            return Arrival.CAME_TRUE
        if parent is None or name in self._nodes or len(self._nodes) >= MAX_NODES:
            return Arrival.STALE
        drawn = parent.drawn is None and not token.guess
        copied = token.copied
        node = parent.child(token.token_id)
        if node is None:
            if parent.length >= until_length or self.size >= MAX_NODES:
                return Arrival.STALE
            node = DraftNode(without_place(token), parent.length + 1, source, copied)
            self.size += 1
            if not drawn:
                parent.guesses[token.token_id] = node
        elif drawn:
            del parent.guesses[token.token_id]
            node.token, node.source, node.copied = without_place(token), source, copied
        if drawn:
            parent.drawn = node
        node.names.append(name)
        self._nodes[name] = node
        return Arrival.KEPT

    def advance(self, token_ids: Sequence[int]) -> list[Step]:
        """Commits output tokens: the prefix grows, the root moves down along them."""
        steps = []
        for token_id in token_ids:
            node, child, drawn = self._root, self._root.child(token_id), self._root.drawn
            guess = child is not None and child is not drawn
            copied = drawn is not None and drawn.copied
            steps.append(Step(drawn is not None, child is not None, guess, copied, self.run))
            self._on_guess = guess
            self.run = self.run + 1 if copied and child is drawn else 0
            self._prefix.extend((token_id,))
            if node.guesses or child is not drawn:
                self._drop(other for other in node.children if other is not child)
            if child is None:
                self._root = DraftNode(common_pb2.DraftToken(), len(self._prefix))
                continue
            self.size -= 1
            for name in child.names:
                del self._nodes[name]
                if len(self._passed) < MAX_NODES:
                    self._passed[name] = len(self._prefix)
            self._root = child
        return steps

    def clear(self) -> None:
        """Drops all tokens: the output has ended, or they are not to be used."""
        self._drop(self._root.children)
        self._root = DraftNode(common_pb2.DraftToken(), len(self._prefix))

    def cut_off(self) -> None:
        """The draft stream is over: node ids and round numbers mean nothing any more.

        The tokens stay: what was drawn is still right.
        """
        self._rounds.clear()
        self._passed.clear()
        for node in self._nodes.values():
            node.names.clear()
        self._nodes.clear()

    def _parent(self, token: common_pb2.DraftToken) -> DraftNode | int | None:
        """The node it hangs on; the length of the prefix it hung on, if that is passed by now."""
        if token.WhichOneof("parent") == "parent_node_id":
            node = self._nodes.get(token.parent_node_id)
            if node is not None:
                return node
            length = self._passed.get(token.parent_node_id)
        else:
            length = self._rounds.get(token.root_round)
        if length == len(self._prefix):
            return self._root
        return length

    def _drop(self, nodes: Iterable[DraftNode]) -> None:
        """Forgets subtrees."""
        heap = list(nodes)
        while heap:
            node = heap.pop()
            heap.extend(node.children)
            for name in node.names:
                del self._nodes[name]
            self.size -= 1
            self.dropped += 1
