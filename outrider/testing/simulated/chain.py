"""Whether drafted tokens are what the target will choose, decided by chance."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

HITS = (0.16, 0.12, 0.065, 0.065)
"""How often the draft's second, third, … choice is the target's token when its first is not."""


class Chain:
    """Drafted tokens from a place of the output on, each right or wrong."""

    def __init__(
        self,
        base: int,
        acceptance: Callable[[int], float],
        chance: Random,
        *,
        match: float = 1.0,
        copies: Callable[[int], float | None] = lambda place: None,
    ) -> None:
        """`acceptance` gives, by place, how likely the draft's token is accepted there. `match`:
        how likely the target, choosing alone, takes a token that it would have accepted; 1 where
        its choice does not depend on the draft. `copies` gives, by place, how likely a copied token
        is right there; None where there is nothing to copy."""
        self.base = base
        self.drawn = 0
        """Tokens that the draft has drawn."""
        self.arrived = 0
        """Tokens that the coordinator has."""
        self.branches: dict[tuple[int, int], Chain] = {}
        """By place and rank of the alternative."""
        self.skipped: set[int] = set()
        """Places for which nothing was drawn."""
        self._acceptance = acceptance
        self._chance = chance
        self._match = match
        self._copies = copies
        self._right: dict[int, bool] = {}
        self._correction: dict[int, int | None] = {}

    def accepted(self, place: int) -> bool:
        """The target judges the draft's token at that place of the output."""
        return self._decide(place, self._chance_at(place, match=1.0))

    def right(self, place: int) -> bool:
        """The draft's token is the output at that place, which was or is now decided."""
        return self._decide(place, self._chance_at(place, match=self._match))

    def copied(self, place: int) -> bool:
        """The draft's token at that place is copied, not drawn."""
        copies = self._copies(place)
        return copies is not None and copies > self._acceptance(place)

    def skip(self, place: int) -> None:
        """The draft was told the token before it drew one."""
        self._right[place] = True
        self.skipped.add(place)

    def correction(self, place: int) -> Chain | None:
        """The branch that begins with the target's token at a place where the draft is wrong."""
        if place not in self._correction:
            self._correction[place] = self._rank()
        rank = self._correction[place]
        return None if rank is None else self.branches.get((place, rank))

    def branch(self, place: int, rank: int) -> Chain:
        """Begins a branch: its tokens follow the guess at `place`."""
        branch = Chain(
            place + 1, self._acceptance, self._chance, match=self._match, copies=self._copies
        )
        self.branches[place, rank] = branch
        return branch

    def _chance_at(self, place: int, *, match: float) -> float:
        if self.copied(place):
            return self._copies(place) or 0.0
        return self._acceptance(place) * match

    def _decide(self, place: int, chance: float) -> bool:
        if place not in self._right:
            self._right[place] = self._chance.random() < chance
        return self._right[place]

    def _rank(self) -> int | None:
        draw = self._chance.random()
        for rank, share in enumerate(HITS):
            draw -= share
            if draw < 0:
                return rank
        return None
