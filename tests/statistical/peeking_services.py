"""Peeks that law 4 forbids, planted into the code of the real coordinator and draft.

Each takes a pytest.MonkeyPatch. Those that send what the draft did not draw keep the target from
finding that out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from coordinator import drafting
from coordinator.decode import DecodeLoop
from coordinator.draft_stream import DraftGoneError, DraftStream
from coordinator.draft_tree import Arrival, DraftTree
from coordinator.drafting import Drafting
from coordinator.proposal import Proposal
from draft_service import drafting as draft_drafting
from draft_service.proposal import CandidateCut, cut_law
from outrider.engine.columns import Columns
from outrider.engine.work import Answer
from outrider.testing.exactness.tables import random_pair
from outrider.v1 import common_pb2, draft_pb2
from target_service import verification

PAIR = random_pair(seed=5, vocabulary_size=4, likeness=0.2)
OTHER = random_pair(seed=1005, vocabulary_size=4)
CUT = CandidateCut(mass=1.0)
PROMPT = (1, 2)
LEAST_LIKELY = 0.4
"""q of a token that looks good."""
SLOW = 0
"""The draft takes long to go on after this token."""
SLOW_S = 0.06

Patch = pytest.MonkeyPatch
Token = common_pb2.DraftToken


def likely(token: Token) -> bool:
    """Whether the token's own q is high."""
    law = token.distribution
    weight = law.weights[list(law.token_ids).index(token.token_id)]
    return bool(weight >= LEAST_LIKELY * sum(law.weights))


def drop_unlikely_tokens(patch: Patch) -> None:
    """A waiting token is not sent, nor those behind it, where its q is low."""
    verified = drafting.verified

    def peeking(tree: DraftTree, *arguments: Any, **options: Any) -> int:
        tokens = tree.chain(verified(tree, *arguments, **options))
        looks = [likely(token) for token in tokens]
        return looks.index(False) if False in looks else len(looks)

    patch.setattr(drafting, "verified", peeking)


def compare_with_a_bonus(patch: Patch) -> None:
    """A bonus is always asked for; one that is not the token waiting there is thrown away, and
    that token is judged with the next round."""
    propose, cut = Drafting.proposal, DecodeLoop._cut
    sent: dict[int, int] = {}

    async def asking(self: Drafting) -> Proposal:
        proposal = await propose(self)
        sent[id(self)] = len(proposal.tokens)
        return replace(proposal, want_bonus=True)

    def comparing(self: DecodeLoop, verdict: Any) -> Any:
        count = sent.get(id(self._drafting), 0)
        waiting = self._tree.chain(count + 1)[count:]
        output = verdict.output_token_ids
        whole = count > 0 and len(output) == count + 1
        if whole and waiting and waiting[0].token_id != output[-1]:
            del output[-1]
        return cut(self, verdict)

    patch.setattr(Drafting, "proposal", asking)
    patch.setattr(DecodeLoop, "_cut", comparing)


def send_guesses(patch: Patch) -> None:
    """Where a guess lies beside a drawn token it is sent in its place, with the law of that."""

    def guessing(self: DraftTree, limit: int) -> list[Token]:
        tokens: list[Token] = []
        node = self._root
        while node.drawn is not None and len(tokens) < limit:
            guess = next(iter(node.guesses.values()), None)
            if guess is None:
                tokens.append(node.drawn.token)
                node = node.drawn
                continue
            token = Token(token_id=guess.token.token_id)
            token.distribution.CopyFrom(node.drawn.token.distribution)
            tokens.append(token)
            break
        return tokens

    patch.setattr(DraftTree, "chain", guessing)
    look_away(patch)


def draw_twice(patch: Patch) -> None:
    """Every drawn token is followed by one that another draft drew for the same place."""
    add = DraftTree.add
    random = Random(0)

    def twice(self: DraftTree, token: Token, **place: Any) -> Arrival:
        paths: dict[int, Sequence[int]] = self.__dict__.setdefault("paths", {})
        if token.HasField("parent_node_id"):
            path = paths.get(token.parent_node_id)
        else:
            length = self._rounds.get(token.root_round)
            path = None if length is None else self._prefix.token_ids[:length]
        if path is None or token.guess:
            return add(self, token, **place)
        paths[token.node_id] = (*path[-2:], token.token_id)
        later = another_draw(token, path, random)
        arrival = add(self, token, **place)
        add(self, later, **place)
        return arrival

    patch.setattr(DraftTree, "add", twice)


def another_draw(token: Token, path: Sequence[int], random: Random) -> Token:
    """One that the other pair's draft draws for the place of `token`, behind `path`."""
    probs = OTHER.draft[path[-2], path[-1]].softmax(dim=0)
    law = cut_law(probs, columns=Columns(len(probs)), cut=CUT)
    other = Token()
    other.CopyFrom(token)
    other.node_id = token.node_id + (1 << 40)
    other.token_id = law.draw(random.getrandbits(64))
    other.distribution.CopyFrom(
        common_pb2.Distribution(token_ids=law.token_ids, weights=law.weights)
    )
    return other


def let_the_last_draw_win(patch: Patch) -> None:
    """A token that is drawn later takes the place of the first, unless it is the same."""
    add = DraftTree.add

    def replacing(self: DraftTree, token: Token, *, until_length: int) -> Arrival:
        node = self._parent(token)
        if isinstance(node, int) or node is None or node.drawn is None or token.guess:
            return add(self, token, until_length=until_length)
        if node.drawn.token.token_id != token.token_id:
            node.guesses[node.drawn.token.token_id] = node.drawn
            node.drawn = None
        return add(self, token, until_length=until_length)

    patch.setattr(DraftTree, "add", replacing)
    draw_twice(patch)
    look_away(patch)


def dawdle(patch: Patch) -> None:
    """What the draft says after one of the tokens comes late."""

    async def reading(self: DraftStream) -> None:
        slow = False
        while True:
            answer = await self._call.read()
            if not isinstance(answer, draft_pb2.DraftResponse):
                raise DraftGoneError
            await asyncio.sleep(SLOW_S if slow else 0.0)
            tokens = answer.proposal.tokens
            slow = bool(tokens) and tokens[-1].token_id == SLOW
            if self._on_end is not None:
                self._on_answer(answer)

    patch.setattr(DraftStream, "_read_answers", reading)


def wait_for_the_follower(patch: Patch) -> None:
    """A token is sent only where the one behind it has come too."""
    dawdle(patch)
    chain = DraftTree.chain
    patch.setattr(DraftTree, "chain", lambda self, limit: chain(self, limit + 1)[:-1])


def flush_when_confident(patch: Patch) -> None:
    """The draft sends a token at once where its q is high; others wait for their number."""

    def hasty(self: Any, orders: Any) -> Generator[Any, Any, None]:
        while self._length < orders.reach.until:
            yield from self._step(orders)
            newest = self._tokens._unanswered[-1].token if self._tokens else None
            confident = newest is not None and probability(newest) >= LEAST_LIKELY
            if confident or (self._tokens and self._length >= orders.reach.answered_from):
                yield Answer(self._result(orders.reach))

    patch.setattr(draft_drafting.Drafting, "_draft", hasty)


def probability(token: Any) -> float:
    """q of a drafted token."""
    law = token.law
    return float(law.weights[law.token_ids.index(token.token_id)] / sum(law.weights))


def look_away(patch: Patch) -> None:
    """The target takes every draft token for what it says."""
    patch.setattr(verification, "check_drafts", lambda *_, **__: None)


Peek = Callable[[Patch], None]
