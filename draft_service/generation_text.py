"""The committed ids of one generation, prepared for being copied from, and what they showed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from draft_service.chances import Chances, Source
from draft_service.draft_job import DraftJob, DraftTerms
from draft_service.recent_texts import RecentTexts, Writer
from draft_service.suffix_automaton import Cursor
from draft_service.text_index import TextEnd, TextIndex
from outrider.prefix import TokenPrefix

MOST_INDEXED = 32_768
"""Ids of a text that are copied from: the last ones when it begins."""
AT_ONCE = 4096
"""Ids that are indexed between two forwards, which takes 10 ms: others wait meanwhile."""
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

    Ids are indexed some at a time, after they were committed; drafted ids never. Nothing is copied
    from a text that is not indexed.
    """

    def __init__(
        self,
        new_index: Callable[[], TextIndex],
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
        self._new_index = new_index
        self._index = new_index()
        self._recent = recent
        self._writer = writer or Writer(None)
        self._others: list[Cursor] = []
        self._from = self._indexed = 0
        self._held = False
        self._told = 0
        """Output ids up to here were learned from and written for others."""
        self._proposed: dict[int, Proposed] = {}

    def __len__(self) -> int:
        return len(self.prefix)

    @property
    def indexed(self) -> int:
        """Ids that can be copied from."""
        return self._indexed - self._from

    @property
    def size(self) -> int:
        """Ids that there will be to copy from once all is indexed; 0 for one that is not to be."""
        if self._held:
            return 0
        return len(self.prefix) - self._from if self.indexed else self.size_anew

    @property
    def size_anew(self) -> int:
        """The same if it is indexed from now on."""
        return min(len(self), MOST_INDEXED)

    @property
    def catching_up(self) -> bool:
        """There is more to index."""
        return not self._held and self._indexed < len(self.prefix)

    def begins(self, job: DraftJob) -> bool:
        """Whether it begins with all ids that the job builds upon."""
        length = job.base_length
        return length <= len(self) and self.prefix.digest(length) == job.prefix_digest

    def goes_on(self, kept: TokenPrefix, job: DraftJob) -> bool:
        """Whether this is the beginning of the job's committed ids. `kept`: state of the first of
        them, of all before those that came with the job where this text is shorter."""
        length = len(self.prefix)
        if length < job.base_length:
            return length <= len(kept) and self.prefix.digest(length) == kept.digest(length)
        following = self.prefix.token_ids[job.base_length :]
        return self.begins(job) and following == list(job.committed_token_ids[: len(following)])

    def hold(self) -> None:
        """There is no room for its index: what there is of it goes."""
        self._index, self._others = self._new_index(), []
        self._from = self._indexed = 0
        self._held = True

    def let_go(self) -> None:
        """There is room again."""
        self._held = False

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
        if self._held:
            return False
        if self._indexed == 0:
            self._from = self._indexed = max(0, length - MOST_INDEXED)
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
        new = position >= max(self.terms.prompt_length, self._told)
        if new and position >= len(self.prefix) - LEARNED:
            for source, end in self._longest():
                after, length = end
                self.chances.saw_copied(source, length, hit=after == token_id)
        self._index.extend(token_id)
        for other in self._others:
            other.advance(token_id)
        if new:
            self._told = position + 1
            if self._recent is not None:
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
