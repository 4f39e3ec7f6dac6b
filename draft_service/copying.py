"""Which places of a chain are copied, and what is copied there.

That is decided for each place before anything is drawn for it: from the ids before it, and from
what earlier outputs showed. A token that was drawn is never compared with one that could be copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from draft_service.draft_job import DraftTerms, KnownToken
from draft_service.generation_text import Ends, GenerationText, Proposed
from draft_service.proposal import DraftedToken, DraftRule
from draft_service.reach import Reach
from outrider.draft_law import POINT_MASS
from outrider.drafter import Drafter

FORWARD_SAVED = 0.02
"""So much likelier a drawn token must be than a copy, which takes no forward."""
LEAST = 0.2
"""What could not be drawn in its place is not copied either where it is less likely."""
FLOOR = 0.12
"""Copies that nobody waits for end where the whole chain up to there is less likely than this."""


class _Copy(NamedTuple):
    """What could be copied: so many ids before it agree."""

    token_id: int
    match: int
    chance: float


class Copying:
    """The copies of one job's chain, which begins behind the committed ids of `text`."""

    def __init__(
        self,
        text: GenerationText,
        known: Sequence[KnownToken],
        *,
        terms: DraftTerms,
        drafter: Drafter,
    ) -> None:
        self.text = text
        self._terms = terms
        self._drafter = drafter
        self._first = len(text)
        self._chain = [token.token_id for token in known]
        self._ends: Ends = []
        self._ready = False
        self._found: _Copy | None = None
        self._chances = [
            text.keep(position, token_id)
            for position, token_id in enumerate(self._chain, start=self._first)
        ]

    @property
    def catching_up(self) -> bool:
        """More of the text is to be indexed before anything is copied."""
        return self.text.catching_up

    def ids(self, start: int) -> list[int]:
        """Those from that place on: the committed ones and the chain's."""
        committed = len(self.text)
        chain = self._chain[max(start, committed) - self._first :]
        return [*self.text.prefix.token_ids[start:], *chain]

    def commit(self, length: int) -> None:
        """The chain is committed up to that length."""
        start = len(self.text) - self._first
        if token_ids := self._chain[start : length - self._first]:
            self.text.commit(token_ids)
            self._ready = False

    def next(self, reach: Reach) -> DraftedToken | None:
        """The copy for the next place, if it is to have one."""
        length = self._first + len(self._chain)
        if not self._look_up() or length >= reach.copies_until:
            return None
        copy = self._likeliest()
        if copy is None or copy.token_id >= self._terms.vocabulary_size:
            return None
        if length < reach.until and self._drafter.draws:
            drawn = self.text.chances.drawn(copy.match)
            if copy.chance < drawn - FORWARD_SAVED:
                return None
        elif copy.chance < LEAST or copy.chance * self._survival < FLOOR:
            return None
        self._extend(Proposed(copy.token_id, copy.chance))
        law = None if self._terms.rule is DraftRule.COUPLED else POINT_MASS
        return DraftedToken(copy.token_id, law, copied=True)

    def drawn(self, token_id: int) -> None:
        """The next place has a drawn token."""
        copy = self._likeliest()
        match = copy.match if copy is not None else 0
        self._extend(Proposed(token_id, self.text.chances.drawn(match), match))

    @property
    def _survival(self) -> float:
        """How likely all of the chain is to be accepted that is not committed yet."""
        return math.prod(self._chances[len(self.text) - self._first :])

    def _extend(self, token: Proposed) -> None:
        self.text.propose(self._first + len(self._chain), token)
        self._chain.append(token.token_id)
        self._chances.append(token.chance)
        self._found = None
        for _, end in self._ends:
            end.advance(token.token_id)

    def _look_up(self) -> bool:
        """Whether the text is indexed; a long one is not at once."""
        if not self._ready and self.text.catch_up():
            self._ready, self._found = True, None
            self._ends = self.text.ends()
            for token_id in self._chain[len(self.text) - self._first :]:
                for _, end in self._ends:
                    end.advance(token_id)
        return self._ready

    def _likeliest(self) -> _Copy | None:
        """The likeliest copy for the next place."""
        if self._found is None:
            for source, end in self._ends:
                following = end.following()
                if following is not None:
                    chance = self.text.chances.copied(source, following[1])
                    if self._found is None or chance > self._found.chance:
                        self._found = _Copy(*following, chance)
        return self._found
