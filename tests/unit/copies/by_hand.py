"""Drafting advanced by hand, forward by forward, on a model that counts in a circle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from draft_service.copybook import Copybook
from draft_service.draft_job import DraftJob, DraftResult, DraftTerms, KnownToken, TreeToken
from draft_service.draft_work import draft
from draft_service.proposal import CandidateCut, DraftRule
from draft_service.reach import Reach
from outrider.drafter import Drafter
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Chunk, Model
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.work import Answer, Together
from outrider.prefix import TokenPrefix
from outrider.testing.scripted import ScriptedModel

OWNER = "stream"
VOCABULARY = 60


def counting(token_ids: Sequence[int]) -> list[float]:
    """n is followed by n + 1, most likely by far; after 49 comes 0."""
    row = [0.0] * VOCABULARY
    row[(token_ids[-1] + 1) % 50] = 9.0
    return row


GREEDY = DraftTerms(
    SamplingOptions(temperature=0.0),
    DraftRule.DRAWN,
    derived_seed=None,
    prompt_length=1,
    vocabulary_size=VOCABULARY,
    committed_vocabulary_size=VOCABULARY,
)
SAMPLED = DraftTerms(
    SamplingOptions(),
    DraftRule.DRAWN,
    derived_seed=7,
    prompt_length=1,
    vocabulary_size=VOCABULARY,
    committed_vocabulary_size=VOCABULARY,
)


@dataclass
class Given:
    """One answer: its tokens, and how many forwards there were before it."""

    result: DraftResult
    forwards: int

    @property
    def ids(self) -> list[int]:
        """Of the chain's tokens."""
        return [each.token.token_id for each in self.chain]

    @property
    def copied(self) -> list[int]:
        """Of those, the copied ones."""
        return [each.token.token_id for each in self.chain if each.token.copied]

    @property
    def chain(self) -> list[TreeToken]:
        """Without guesses."""
        return [each for each in self.result.tokens if not each.guess]


@dataclass
class Drafts:
    """One stream's drafting. `read`: the ids of each forward."""

    drafter: Drafter = Drafter.MIXED
    terms: DraftTerms = GREEDY
    scope: bytes = b""
    model: Model = field(default_factory=lambda: ScriptedModel(counting, vocabulary_size=60))
    handles: HandleTable | None = None
    owner: str = OWNER
    read: list[list[int]] = field(default_factory=list)
    recent_ids: int = 1000

    def __post_init__(self) -> None:
        if self.handles is None:
            self.handles = HandleTable(self.model.new_sequence, max_handles=99)
        self.table = self.handles
        self.handle_id = self.table.open(None, owner=self.owner, scope=self.scope)
        self.serial = 0

    @property
    def copybook(self) -> Copybook:
        """What it copies from."""
        copybook: Copybook = self.table.notes
        return copybook

    def job(
        self,
        token_ids: Sequence[int],
        *,
        until: int,
        base: int = 0,
        known: Sequence[KnownToken] = (),
        **reach: Any,
    ) -> DraftJob:
        """That commits `token_ids`; lengths `until` and of `reach` are counted from their end."""
        self.serial += 1
        length = len(token_ids)
        lengths = {
            name: length + reach.pop(name)
            for name in ("together_until", "copy_until")
            if name in reach
        }
        return DraftJob(
            self.serial,
            self.handle_id,
            self.owner,
            self.terms,
            base_length=base,
            prefix_digest=TokenPrefix(token_ids).digest(base),
            committed_token_ids=token_ids[base:],
            known=known,
            reach=Reach(self.serial, length, until=length + until, **lengths, **reach),
        )

    def run(
        self,
        job: DraftJob,
        *,
        before_forward: Callable[[int], Exception | None] = lambda number: None,
    ) -> list[Given]:
        """All answers. `before_forward` gets the number of each, from 0, and may give what is
        raised in its place."""
        work = draft(
            job,
            model=self.model,
            handles=self.table,
            cut=CandidateCut(),
            drafter=self.drafter,
            recent_ids=self.recent_ids,
        )
        given: list[Given] = []
        first = len(self.read)
        sent: torch.Tensor | None = None
        error: Exception | None = None
        while True:
            try:
                if error is not None:
                    step = work.throw(error)
                else:
                    step = work.send(sent) if sent is not None else next(work)
            except StopIteration as end:
                assert not isinstance(end.value, StateLost), "the state is lost"
                return [*given, Given(end.value, len(self.read) - first)]
            sent = error = None
            if isinstance(step, Answer):
                assert isinstance(step.result, DraftResult)
                given.append(Given(step.result, len(self.read) - first))
                continue
            error = before_forward(len(self.read) - first)
            if error is None:
                sent = self._forward(step)

    def _forward(self, step: Chunk | Together) -> torch.Tensor:
        chunk, riders = (step.chunk, step.riders) if isinstance(step, Together) else (step, ())
        self.read.append(list(chunk.token_ids))
        rows = self.model.forward([chunk, *(rider.chunk for rider in riders)])
        for rider, logits in zip(riders, rows[1:], strict=True):
            rider.rows = logits
        return rows[0]
