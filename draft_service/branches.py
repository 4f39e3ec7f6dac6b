"""Side branches of a chain: alternatives to its tokens, and what is drafted below them.

They have state of their own, forked from the chain's, and share its forwards as riders: they take
nobody's room, and one that is left out has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from draft_service.branch_choice import Place, likeliest
from draft_service.draft_job import TreeTokens
from draft_service.proposal import DraftedToken
from draft_service.reach import Reach
from outrider.engine.model import Chunk
from outrider.engine.paged_sequence import Sequence as KvSequence
from outrider.engine.work import Rider
from outrider.prefix import TokenPrefix


@dataclass(slots=True, eq=False)
class _Branch:
    """`position`: of its first token. `number`: of its last one. `left`: tokens to be drawn."""

    sequence: KvSequence
    position: int
    rider: Rider
    number: int
    left: int


class Branches:
    """The branches that are growing. Their tokens go to `tokens`."""

    def __init__(self, tokens: TreeTokens, *, context_length: int) -> None:
        self._tokens = tokens
        self._context_length = context_length
        self._growing: list[_Branch] = []

    def __len__(self) -> int:
        return len(self._growing)

    @property
    def riders(self) -> Sequence[Rider]:
        """What each of them reads next."""
        return [branch.rider for branch in self._growing]

    def open(self, chain: KvSequence, places: Sequence[Place], *, first: int, reach: Reach) -> None:
        """Begins those that are most likely to be needed, as many as may grow beside the others.

        `places`: of the chain's tokens that are not decided, `first` the position of the first one.
        The chain has state of all ids before the last of them.
        """
        chosen = likeliest(
            places,
            free=reach.branches - len(self._growing),
            branches=reach.branches,
            acceptance=reach.acceptance,
        )
        for place, token_id in chosen:
            position = first + place
            places[place].guesses.add(token_id)
            guess = DraftedToken(token_id, law=None)
            number = self._tokens.add(guess, parent=places[place].parent, guess=True)
            left = min(reach.branch_length, self._context_length - position - 1)
            if left > 0:
                twin = chain.fork()
                twin.rollback(position)
                rider = _reading(twin, token_id)
                self._growing.append(_Branch(twin, position, rider, number, left))

    def read(self) -> list[tuple[torch.Tensor, TokenPrefix]]:
        """Logits [columns] of those that were read, and what they follow; the others end."""
        rows = []
        for branch in list(self._growing):
            if branch.rider.rows is None or not len(branch.rider.rows):
                self._end(branch)
            else:
                rows.append((branch.rider.rows[0], branch.sequence.prefix))
        return rows

    def grow(self, tokens: Sequence[DraftedToken]) -> None:
        """Adds to each the token that follows what it read."""
        for branch, token in zip(list(self._growing), tokens, strict=True):
            branch.number = self._tokens.add(token, parent=branch.number)
            branch.rider = _reading(branch.sequence, token.token_id)
            branch.left -= 1
            if not branch.left:
                self._end(branch)

    def drop_before(self, position: int) -> None:
        """Ends those whose place is decided."""
        for branch in [branch for branch in self._growing if branch.position < position]:
            self._end(branch)

    def close(self) -> None:
        """Ends all."""
        for branch in list(self._growing):
            self._end(branch)

    def _end(self, branch: _Branch) -> None:
        self._growing.remove(branch)
        branch.sequence.clear()


def _reading(sequence: KvSequence, token_id: int) -> Rider:
    return Rider(Chunk(sequence, [token_id], rows=1))
