"""All that a worker copies from: the texts of its generations, and recent outputs by scope."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from draft_service.chances import Chances, WorkerChances
from draft_service.draft_job import DraftJob, DraftTerms
from draft_service.generation_text import GenerationText
from draft_service.ngrams import NGramIndex
from draft_service.recent_texts import RecentTexts, Writer
from draft_service.text_index import SuffixIndex
from outrider.drafter import Drafter
from outrider.engine.handles import HandleTable
from outrider.engine.paged_sequence import Sequence as KvSequence

MOST_IDS = 1 << 20
"""Of all texts together, at 0.2 KB each; the text that was used longest ago is dropped first."""
MOST_SCOPES = 16
MOST_RECENT = 32_768
"""Ids of recent outputs of one scope, at 0.2 KB each: some hundred answers."""


class Copybook:
    """Touched on the model thread only, and kept where the KV states are."""

    def __init__(self, drafter: Drafter, *, recent_ids: int = MOST_RECENT) -> None:
        """`recent_ids`: most ids of recent outputs that are kept of a scope; 0: none are."""
        self._drafter = drafter
        self._recent_ids = recent_ids
        self._texts: OrderedDict[str, GenerationText] = OrderedDict()
        self._recent: OrderedDict[bytes, RecentTexts] = OrderedDict()
        self._chances = {greedy: WorkerChances(greedy=greedy) for greedy in (False, True)}

    def rebased(self, job: DraftJob, handles: HandleTable) -> DraftJob:
        """The job as it would be if all ids had been sent that its state lacks.

        Copies need no state: the ids that a round goes on from may be here alone.
        """
        text, length = self._texts.get(job.handle_id), handles.length(job.handle_id)
        if text is None or not length < job.base_length <= len(text):
            return job
        prefix = text.prefix
        if prefix.digest(job.base_length) != job.prefix_digest:
            return job
        lacking = prefix.token_ids[length : job.base_length]
        return replace(
            job,
            base_length=length,
            prefix_digest=prefix.digest(length),
            committed_token_ids=[*lacking, *job.committed_token_ids],
        )

    def text(self, job: DraftJob, sequence: KvSequence, handles: HandleTable) -> GenerationText:
        """The text of a job's generation, up to what is committed.

        `sequence` has at least the ids before the committed ones of the job.
        """
        text = self._texts.pop(job.handle_id, None)
        if text is None or not _fits(text, job, sequence):
            text = self._new_text(job.terms, scope=sequence.scope)
        text.commit(_since(len(text), job, sequence))
        self._texts[job.handle_id] = text
        self._make_room(handles)
        return text

    def _new_text(self, terms: DraftTerms, *, scope: bytes) -> GenerationText:
        chances = Chances(self._chances[terms.options.greedy])
        if self._drafter is Drafter.NGRAM:
            return GenerationText(NGramIndex(), chances, terms=terms)
        # Whether another output was decided by the same draws cannot be told without their seed.
        known = terms.output_needs_no_draft or terms.derived_seed is not None
        known = known and self._recent_ids > 0
        seed = None if terms.output_needs_no_draft else terms.derived_seed
        return GenerationText(
            SuffixIndex(),
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

    def _make_room(self, handles: HandleTable) -> None:
        """Forgets texts whose states are gone, and more where there are too many ids."""
        for handle_id in [each for each in self._texts if not handles.knows(each)]:
            del self._texts[handle_id]
        ids = sum(len(text) for text in self._texts.values())
        while ids > MOST_IDS and len(self._texts) > 1:
            ids -= len(self._texts.popitem(last=False)[1])


def _fits(text: GenerationText, job: DraftJob, sequence: KvSequence) -> bool:
    """It is the beginning of the job's committed ids, and what it was made for."""
    return text.terms == job.terms and text.goes_on(
        sequence.prefix, job.committed_token_ids, base_length=job.base_length
    )


def _since(length: int, job: DraftJob, sequence: KvSequence) -> Sequence[int]:
    """The committed ids from that place on."""
    kept = sequence.prefix.token_ids[length : job.base_length]
    return [*kept, *job.committed_token_ids[max(0, length - job.base_length) :]]
