"""Drafting as work for the model thread: a forward for each token, answers along the way."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

import structlog
import torch

from draft_service.branch_choice import MOST_BESIDE, Place
from draft_service.branches import Branches
from draft_service.draft_job import DraftJob, DraftResult, TreeTokens
from draft_service.orders import Orders, taking_orders
from draft_service.proposal import CandidateCut, DraftedToken, Proposer
from draft_service.reach import Reach
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.work import Answer, Recalled, Together, Work

Reading = Generator[Chunk | Together, torch.Tensor, None]
Answering = Generator[Chunk | Together | Answer[DraftResult], torch.Tensor, None]

log = structlog.get_logger(__name__)


def draft(
    job: DraftJob, *, model: Model, handles: HandleTable, cut: CandidateCut
) -> Work[DraftResult | StateLost]:
    """Reads what is committed and known, and drafts on, one token after the other.

    How many tokens there are, and how many in one answer, depends on lengths alone. The last one
    is not read by a forward: it comes back as a committed one if it is accepted. When a later
    token cannot be had, the ones already drawn are given all the same: holding one back for what
    follows it would bias the output. Goes on with another job when ordered to.
    """
    while True:
        with handles.working_on(
            job.handle_id,
            owner=job.owner,
            base_length=job.base_length,
            prefix_digest=job.prefix_digest,
            following=job.token_ids,
        ) as sequence:
            if isinstance(sequence, StateLost):
                return sequence
            with taking_orders(handles, owner=job.owner, reach=job.reach) as orders:
                drafting = Drafting(job, model=model, sequence=sequence, cut=cut)
                result = yield from drafting.run(orders)
        if orders.job is None:
            return result
        yield Answer(replace(result, replaced=True))
        job = orders.job


class Drafting:
    """One job's tokens: the chain, and side branches that share its forwards."""

    def __init__(
        self, job: DraftJob, *, model: Model, sequence: Sequence, cut: CandidateCut
    ) -> None:
        """`sequence` has state of the first of the ids that are committed and known."""
        terms = job.terms
        self._sequence = sequence
        self._proposer = Proposer(
            terms.options,
            model.columns.below(terms.vocabulary_size),
            prompt_length=terms.prompt_length,
            derived_seed=terms.derived_seed,
            cut=cut,
            rule=terms.rule,
        )
        self._serial = job.serial
        self._first = job.committed_length
        self._length = job.committed_length + len(job.known)
        self._unread = job.token_ids[len(sequence.prefix) - job.base_length :]
        self._places = [
            Place(number - 1 if number else None, token.alternatives, set(token.guesses))
            for number, token in enumerate(job.known)
        ]
        self._last = len(job.known) - 1 if job.known else None
        self._tokens = TreeTokens(known=len(job.known))
        self._branches = Branches(self._tokens, context_length=model.context_length)
        self._committed_digest: int | None = None
        sequence.seal(self._first)

    def run(self, orders: Orders) -> Work[DraftResult]:
        """Drafts as far as the orders let it at each moment."""
        with closing(self._branches):
            try:
                yield from self._draft(orders)
            except Recalled:
                self._sequence.rollback(len(self._sequence.prefix))
            except Exception as error:
                if self._committed_digest is None:
                    raise
                log.warning("a draft ended early", error=type(error).__name__)
        return self._result(orders.reach)

    def _draft(self, orders: Orders) -> Answering:
        if self._length >= orders.reach.until:
            yield from self._read_known(orders.reach)
        while self._length < orders.reach.until or self._branches:
            yield from self._step(orders)
            self._branch_out(orders.reach)
            reach = orders.reach
            more = self._length < reach.until or self._branches
            if more and self._tokens and self._length >= reach.answered_from:
                yield Answer(self._result(reach))

    def _read_known(self, reach: Reach) -> Reading:
        """Draws nothing: reads what is committed, and what branches are to begin from."""
        wanted = max(self._first, self._length - 1) if reach.branches else self._first
        if count := max(0, wanted - len(self._sequence.prefix)):
            unread, self._unread = self._unread[:count], self._unread[count:]
            yield Chunk(self._sequence, unread, rows=0, final=self._stateless)
        self._branch_out(reach)

    def _step(self, orders: Orders) -> Reading:
        """A forward, and the tokens that are still wanted then."""
        chunk = Chunk(self._sequence, (), rows=0)
        if self._length < orders.reach.until:
            chunk = self._all_unread()
        riders = self._branches.riders
        rows = yield Together(chunk, riders) if riders else chunk
        reach = orders.reach
        self._branches.drop_before(reach.committed_length)
        read = self._branches.read()
        grows = chunk.rows > 0 and self._length < reach.until
        if grows:
            read.insert(0, (rows[0], self._sequence.prefix))
        tokens = self._proposer.tokens(
            [logits for logits, _ in read],
            [prefix for _, prefix in read],
            alternatives=min(reach.branches, MOST_BESIDE),
        )
        if grows:
            self._extend(tokens.pop(0))
        self._branches.grow(tokens)

    def _all_unread(self) -> Chunk:
        """Everything without state; the last token once more where there is nothing else."""
        if not self._unread:
            self._unread = [self._sequence.prefix.token_ids[-1]]
            self._sequence.rollback(self._length - 1)
        unread, self._unread = self._unread, []
        return Chunk(self._sequence, unread, rows=1, final=self._stateless)

    def _extend(self, token: DraftedToken) -> None:
        """The chain's next token."""
        if self._committed_digest is None:
            self._committed_digest = self._sequence.prefix.digest(self._first)
        self._places.append(Place(self._last, token.alternatives))
        self._last = self._tokens.add(token, parent=self._last)
        self._unread = [token.token_id]
        self._length += 1

    def _branch_out(self, reach: Reach) -> None:
        """Begins side branches as the chain grows, once all is drawn that is waited for."""
        if reach.branches and self._length >= reach.answered_from:
            self._branches.open(
                self._sequence,
                self._places[max(0, reach.committed_length - self._first) :],
                first=max(reach.committed_length, self._first),
                reach=reach,
            )

    @property
    def _stateless(self) -> int:
        """Committed ids without state."""
        return max(0, self._first - len(self._sequence.prefix))

    def _result(self, reach: Reach) -> DraftResult:
        return DraftResult(
            reach.number,
            self._serial,
            tokens=self._tokens.take(),
            kept_length=len(self._sequence.prefix),
            committed_digest=self._committed_digest,
        )
