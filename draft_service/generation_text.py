"""The committed ids of one generation, prepared for being copied from, and what they showed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from draft_service.chances import Chances, Source
from draft_service.draft_job import DraftTerms
from draft_service.recent_texts import RecentTexts, Writer
from draft_service.suffix_automaton import Cursor
from draft_service.text_index import TextEnd, TextIndex
from outrider.prefix import TokenPrefix

MOST_INDEXED = 32_768
"""Ids of a text that are copied from: the last ones when it begins."""
AT_ONCE = 4096
"""Ids that are indexed in one go, which takes 10 ms: other generations wait meanwhile."""
LOOKED_BACK = 24
"""Ids by which the end of the text is found in other texts."""
LEARNED = 64
"""Ids of an output that came at once, a resumed one, are learned from no further back."""

Ends = list[tuple[Source, TextEnd]]


class Proposed(NamedTuple):
    """A token of a chain. `chance`: of being accepted, as believed before it was chosen. `match`:
    it was drawn, beside a match of that length."""

    token_id: int
    chance: float = 1.0
    match: int | None = None


class GenerationText:
    """A memo: it is made again from the ids when it does not fit them.

    Ids are indexed some at a time, after they were committed; drafted ids never.
    """

    def __init__(
        self,
        index: TextIndex,
        chances: Chances,
        *,
        terms: DraftTerms,
        recent: RecentTexts | None = None,
        writer: Writer | None = None,
    ) -> None:
        """`recent`: outputs that may be copied from and added to, as `writer`; None: there are
        none, or they are not to be used."""
        self.terms = terms
        self.chances = chances
        self.prefix = TokenPrefix()
        self._index = index
        self._recent = recent
        self._writer = writer or Writer(None)
        self._others: list[Cursor] = []
        self._indexed = 0
        self._proposed: dict[int, Proposed] = {}

    def __len__(self) -> int:
        return len(self.prefix)

    def goes_on(self, kept: TokenPrefix, token_ids: Sequence[int], *, base_length: int) -> bool:
        """Whether this is the beginning of the first `base_length` ids of `kept` and these."""
        length = len(self.prefix)
        shared = min(length, base_length)
        following = self.prefix.token_ids[shared:]
        return (
            self.prefix.digest(shared) == kept.digest(shared)
            and length - base_length <= len(token_ids)
            and list(following) == list(token_ids[: len(following)])
        )

    def commit(self, token_ids: Sequence[int]) -> None:
        """These are committed too."""
        for position, token_id in enumerate(token_ids, start=len(self.prefix)):
            if self._proposed:
                self._judge(position, token_id)
        self.prefix.extend(token_ids)

    def propose(self, position: int, token: Proposed) -> None:
        """A chain has this token there."""
        self._proposed[position] = token

    def keep(self, position: int, token_id: int) -> float:
        """A chain has this token there, as it had before or not; its chance, as it was then."""
        before = self._proposed.get(position)
        if before is None or before.token_id != token_id:
            before = self._proposed[position] = Proposed(token_id)
        return before.chance

    def catch_up(self) -> bool:
        """Indexes ids that were committed; whether that is all of them."""
        length = len(self.prefix)
        if self._indexed == 0:
            self._indexed = max(0, length - MOST_INDEXED)
        first, last = self._indexed, min(length, self._indexed + AT_ONCE)
        if self._recent is not None and last > first:
            before = self.prefix.token_ids[max(0, first - LOOKED_BACK) : first]
            self._others = self._recent.ends(self._writer, before)
        for position in range(first, last):
            self._take(position, self.prefix.token_ids[position])
        self._indexed = last
        return last == length

    def ends(self) -> Ends:
        """The end of what is indexed, wherever it may have come before."""
        others = [(Source.RECENT, end.copy()) for end in self._others]
        return [(Source.GENERATION, self._index.end()), *others]

    def _take(self, position: int, token_id: int) -> None:
        output = position >= self.terms.prompt_length
        if output and position >= len(self.prefix) - LEARNED:
            for source, end in self._longest():
                after, length = end
                self.chances.saw_copied(source, length, hit=after == token_id)
        self._index.extend(token_id)
        for other in self._others:
            other.advance(token_id)
        if output and self._recent is not None:
            self._recent.write(self._writer, token_id)

    def _longest(self) -> list[tuple[Source, tuple[int, int]]]:
        """What each source would have copied."""
        found: dict[Source, tuple[int, int]] = {}
        own = self._index.end().following()
        if own is not None:
            found[Source.GENERATION] = own
        for other in self._others:
            following = other.following()
            longest = found.get(Source.RECENT)
            if following is not None and (longest is None or following[1] > longest[1]):
                found[Source.RECENT] = following
        return list(found.items())

    def _judge(self, position: int, token_id: int) -> None:
        """What became of the token that was proposed there."""
        proposed = self._proposed.pop(position, None)
        hit = proposed is not None and proposed.token_id == token_id
        if proposed is not None and proposed.match is not None:
            self.chances.saw_drawn(proposed.match, hit=hit)
        if not hit:
            # What was proposed behind it followed other ids.
            self._proposed.clear()
