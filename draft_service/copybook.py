"""All that a worker copies from: the texts of its generations, and recent outputs by scope."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from draft_service.chances import Chances, WorkerChances
from draft_service.draft_job import DraftJob, DraftTerms
from draft_service.generation_text import GenerationText
from draft_service.ngrams import NGramIndex
from draft_service.recent_texts import RecentTexts, Writer
from draft_service.text_index import SuffixIndex
from outrider.drafter import Drafter
from outrider.engine.handles import HandleTable
from outrider.engine.paged_sequence import Sequence as KvSequence
from outrider.prefix import TokenPrefix

MOST_IDS = 1 << 20
"""Indexed ids of all texts together, at 0.2 KB each, before a text is indexed. Where they would be
more, nothing is copied from it until there is room; those that are indexed may grow."""
MOST_SCOPES = 16
MOST_RECENT = 32_768
"""Ids of recent outputs of one scope, at 0.2 KB each: some hundred answers."""


class Base(NamedTuple):
    """The ids that a state has to have, by their number and digest, and what follows them."""

    length: int
    digest: int
    following: Sequence[int]


def base_of(job: DraftJob) -> Base:
    """What the job builds upon, all of it."""
    return Base(job.base_length, job.prefix_digest, job.token_ids)


class Copybook:
    """Touched on the model thread only, and kept where the KV states are."""

    def __init__(self, drafter: Drafter, *, recent_ids: int = MOST_RECENT) -> None:
        """`recent_ids`: most ids of recent outputs that are kept of a scope; 0: none are."""
        self._drafter = drafter
        self._recent_ids = recent_ids
        self._texts: dict[str, GenerationText] = {}
        self._recent: OrderedDict[bytes, RecentTexts] = OrderedDict()
        self._chances = {greedy: WorkerChances(greedy=greedy) for greedy in (False, True)}

    def base(self, job: DraftJob, handles: HandleTable) -> Base:
        """What the job's state has to have: less than the job builds upon, where the rest is here.

        Copies need no state: the ids that a round goes on from may be in the text alone.
        """
        text, length = self._texts.get(job.handle_id), handles.length(job.handle_id)
        if text is None or length >= job.base_length or not text.begins(job):
            return base_of(job)
        return Base(length, text.prefix.digest(length), ())

    def text(self, job: DraftJob, sequence: KvSequence, handles: HandleTable) -> GenerationText:
        """The text of a job's generation, up to what is committed.

        `sequence` has at least the ids of its `base`.
        """
        text = self._texts.pop(job.handle_id, None)
        # Of another output, or on other terms: its ids may be all there is of those before.
        kept = text.prefix if text is not None and text.begins(job) else sequence.prefix
        if text is None or not _fits(text, job, sequence):
            text = self._new_text(job.terms, scope=sequence.scope)
        text.commit(_since(len(text), job, kept))
        self._forget(handles)
        if text.indexed or self._make_room(text.size_anew, handles):
            text.let_go()
        else:
            text.hold()
        self._texts[job.handle_id] = text
        return text

    def _new_text(self, terms: DraftTerms, *, scope: bytes) -> GenerationText:
        chances = Chances(self._chances[terms.options.greedy])
        if self._drafter is Drafter.NGRAM:
            return GenerationText(NGramIndex, chances, terms=terms)
        # Whether another output was decided by the same draws cannot be told without their seed.
        known = terms.output_needs_no_draft or terms.derived_seed is not None
        known = known and self._recent_ids > 0
        seed = None if terms.output_needs_no_draft else terms.derived_seed
        return GenerationText(
            SuffixIndex,
            chances,
            terms=terms,
            recent=self._recent_texts(scope) if known else None,
            writer=Writer(seed),
        )

    def _recent_texts(self, scope: bytes) -> RecentTexts:
        texts = self._recent.pop(scope, None) or RecentTexts(most_ids=self._recent_ids)
        self._recent[scope] = texts
        while len(self._recent) > MOST_SCOPES:
            self._recent.popitem(last=False)
        return texts

    def _forget(self, handles: HandleTable) -> None:
        """Texts whose states are gone."""
        for handle_id in [each for each in self._texts if not handles.knows(each)]:
            del self._texts[handle_id]

    def _make_room(self, size: int, handles: HandleTable) -> bool:
        """Whether so many ids more can be indexed. Texts of streams that broke give way where that
        is enough, the one that was used longest ago first; those of the others never do."""
        over = sum(text.size for text in self._texts.values()) + size - MOST_IDS
        idle = [text for name, text in self._texts.items() if not handles.pinned(name)]
        if over > sum(text.size for text in idle):
            return False
        for text in idle:
            if over <= 0:
                break
            over -= text.size
            text.hold()
        return True


def _fits(text: GenerationText, job: DraftJob, sequence: KvSequence) -> bool:
    """It is the beginning of the job's committed ids, and what it was made for."""
    return text.terms == job.terms and text.goes_on(sequence.prefix, job)


def _since(length: int, job: DraftJob, kept: TokenPrefix) -> Sequence[int]:
    """The committed ids from that place on; `kept` begins with those that the job builds upon."""
    before = kept.token_ids[length : job.base_length]
    return [*before, *job.committed_token_ids[max(0, length - job.base_length) :]]
