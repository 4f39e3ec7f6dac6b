"""Drafting as work for the model thread: a forward for each token, answers along the way."""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import structlog
import torch

from draft_service.proposal import CandidateCut, DraftedToken, draw_token
from draft_service.reach import Orders, Reach, taking_orders
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.work import Answer, Recalled, Work

Reading = Generator[Chunk, torch.Tensor, None]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """What an Open fixes for all rounds of its stream.

    `derived_seed` None: drafts are greedy, whatever the options say. Ids from
    `vocabulary_size` on are never proposed; committed ids go up to `committed_vocabulary_size`,
    the target's, which may be more than the draft's model knows.
    """

    options: SamplingOptions
    derived_seed: int | None
    prompt_length: int
    vocabulary_size: int
    committed_vocabulary_size: int


@dataclass(frozen=True, slots=True)
class DraftJob:
    """One round: the tokens committed after `base_length`, and how far to draft.

    `drafted_token_ids` were drafted below them in rounds before.
    """

    handle_id: str
    owner: str
    terms: DraftTerms
    base_length: int
    prefix_digest: int
    committed_token_ids: SequenceOf[int]
    drafted_token_ids: SequenceOf[int]
    reach: Reach


@dataclass(frozen=True, slots=True)
class TreeToken:
    """A drafted token and where it hangs.

    Tokens of a job are numbered from 0, those drafted before first. `parent`: the number of the
    one before it; None: it follows the ids that were committed when the job began.
    """

    token: DraftedToken
    parent: int | None


@dataclass(frozen=True, slots=True)
class DraftResult:
    """Tokens in draw order, since the answer before.

    `kept_length` is how many leading ids have KV state now. `committed_digest`: of the ids that
    were committed when the job began; None before the first token.
    """

    tokens: SequenceOf[TreeToken]
    kept_length: int
    committed_digest: int | None = None


def draft(
    job: DraftJob, *, model: Model, handles: HandleTable, cut: CandidateCut
) -> Work[DraftResult | StateLost]:
    """Reads what is committed and was drafted before, and drafts on, one token after the other.

    How many tokens there are, and how many in one answer, depends on lengths alone. The last one
    is not read by a forward: it comes back as a committed one if it is accepted. When a later
    token cannot be had, the ones already drawn are given all the same: holding one back for what
    follows it would bias the output.
    """
    with handles.working_on(
        job.handle_id,
        owner=job.owner,
        base_length=job.base_length,
        prefix_digest=job.prefix_digest,
        following=[*job.committed_token_ids, *job.drafted_token_ids],
    ) as sequence:
        if isinstance(sequence, StateLost):
            return sequence
        with taking_orders(handles, owner=job.owner, reach=job.reach) as orders:
            drafting = _Drafting(job, model=model, sequence=sequence, cut=cut)
            return (yield from drafting.run(orders))


class _Drafting:
    """One job's drafting: what is still to be read, and what is still to be answered."""

    def __init__(
        self, job: DraftJob, *, model: Model, sequence: Sequence, cut: CandidateCut
    ) -> None:
        self._terms = job.terms
        self._model = model
        self._sequence = sequence
        self._cut = cut
        self._committed_length = job.base_length + len(job.committed_token_ids)
        sequence.seal(self._committed_length)
        ids = [*job.committed_token_ids, *job.drafted_token_ids]
        self._length = job.base_length + len(ids)
        self._unread = ids[len(sequence.prefix) - job.base_length :]
        self._numbers = len(job.drafted_token_ids)
        self._tokens: list[TreeToken] = []
        self._committed_digest: int | None = None

    def run(self, orders: Orders) -> Work[DraftResult]:
        """Drafts as far as the orders let it at each moment."""
        try:
            if self._length >= orders.reach.until:
                yield from self._read_committed()
            while self._length < orders.reach.until:
                yield from self._draft_one(orders)
                if orders.reach.proposal_until <= self._length < orders.reach.until:
                    yield Answer(self._result())
        except Recalled:
            self._sequence.rollback(len(self._sequence.prefix))
        except Exception as error:
            if self._committed_digest is None:
                raise
            log.warning("a draft ended early", error=type(error).__name__)
        return self._result()

    def _read_committed(self) -> Reading:
        if count := self._uncommitted_state:
            yield Chunk(self._sequence, self._unread[:count], rows=0, final=count)

    def _draft_one(self, orders: Orders) -> Reading:
        """Reads all that is known and draws the next token, if that is still wanted then."""
        if not self._unread:
            last = self._sequence.prefix.token_ids[-1]
            self._sequence.rollback(self._length - 1)
            self._unread = [last]
        rows = yield Chunk(self._sequence, self._unread, rows=1, final=self._uncommitted_state)
        self._unread = []
        if self._length >= orders.reach.until:
            return
        prefix = self._sequence.prefix
        if self._committed_digest is None:
            self._committed_digest = prefix.digest(self._committed_length)
        token = draw_token(
            rows[0],
            self._terms.options,
            columns=self._model.columns,
            prefix=prefix,
            prompt_length=self._terms.prompt_length,
            derived_seed=self._terms.derived_seed,
            vocabulary_size=self._terms.vocabulary_size,
            cut=self._cut,
        )
        self._tokens.append(TreeToken(token, self._numbers - 1 if self._numbers else None))
        self._unread = [token.token_id]
        self._numbers += 1
        self._length += 1

    @property
    def _uncommitted_state(self) -> int:
        """Committed ids that have no state yet."""
        return max(0, self._committed_length - len(self._sequence.prefix))

    def _result(self) -> DraftResult:
        tokens, self._tokens = self._tokens, []
        return DraftResult(tokens, len(self._sequence.prefix), self._committed_digest)
