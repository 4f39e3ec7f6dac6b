"""Drafting as work for the model thread: a forward for each drawn token, none for a copied one.

When a drawn token is sent must not depend on what it is: a round that goes on without it would
choose among the draft's tokens. Where copies may come behind it, how many forwards those places
take does depend on it. So nothing is copied while a token drawn by chance waits for others.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import structlog
import torch

from draft_service.branch_choice import MOST_BESIDE, Place
from draft_service.branches import Branches
from draft_service.copying import Copying
from draft_service.draft_job import DraftJob, DraftResult, TreeTokens
from draft_service.orders import Orders
from draft_service.proposal import CandidateCut, DraftedToken, Proposer
from draft_service.reach import Reach
from outrider.drafter import Drafter
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.work import Answer, Recalled, Together, Work

Reading = Generator[Chunk | Together, torch.Tensor, None]
Answering = Generator[Chunk | Together | Answer[DraftResult], torch.Tensor, None]

READ_AT_ONCE = 512
"""Ids that are read in one go where nothing is drawn: copies may be wanted meanwhile."""
MOST_BEHIND = 32
"""Committed ids without state that are left to the next forward that draws."""

log = structlog.get_logger(__name__)


class Drafting:
    """One job's tokens: the chain, and side branches that share its forwards."""

    def __init__(
        self,
        job: DraftJob,
        *,
        model: Model,
        sequence: Sequence,
        cut: CandidateCut,
        drafter: Drafter,
        copying: Copying | None,
    ) -> None:
        """`sequence` has state of the first of the ids that are committed and known; where copies
        are made the others are in their text, else in the job."""
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
        self._base_length = job.base_length
        self._ids_behind_base = job.token_ids if copying is None else []
        self._places = [
            Place(number - 1 if number else None, token.alternatives, set(token.guesses))
            for number, token in enumerate(job.known)
        ]
        self._last = len(job.known) - 1 if job.known else None
        self._tokens = TreeTokens(known=len(job.known))
        self._branches = Branches(self._tokens, context_length=model.context_length)
        self._committed_digest: int | None = None
        self._draws = drafter.draws
        self._copying = copying
        self._by_chance = terms.by_chance
        self._unsent_drawn = self._unsent_copied = False
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
        asked = self._length < orders.reach.copies_until
        self._copy(orders.reach)
        while self._waits_for_index(orders.reach):
            self._copy(orders.reach)
        if self._draws and not asked:
            yield from self._read_known(orders.reach)
        while self._goes_on(orders.reach):
            yield from self._give_copies(orders.reach)
            yield from self._step(orders)
            self._copy(orders.reach)
            self._branch_out(orders.reach)
            reach = orders.reach
            if self._goes_on(reach) and self._tokens and self._length >= reach.answered_from:
                yield Answer(self._result(reach))

    def _goes_on(self, reach: Reach) -> bool:
        """Another forward is wanted."""
        return self._draws_on(reach) or bool(self._branches) or self._is_behind(reach)

    def _waits_for_index(self, reach: Reach) -> bool:
        """Only copies are wanted, and the text is long. There is no forward between which it could
        be indexed some at a time, so it is at once: 80 ms for the longest, once."""
        copying = self._copying
        wanted = self._length < reach.copies_until and not self._draws_on(reach)
        return copying is not None and wanted and copying.catching_up

    def _unread(self, count: int | None = None) -> list[int]:
        """The ids that have no state yet, or the first `count` of them."""
        start = len(self._sequence.prefix)
        if self._copying is not None:
            ids = self._copying.ids(start)
        else:
            ids = self._ids_behind_base[start - self._base_length :]
        return ids if count is None else ids[:count]

    def _draws_on(self, reach: Reach) -> bool:
        return self._draws and self._length < reach.until

    def _is_behind(self, reach: Reach) -> bool:
        """Copies have spared forwards for so long that there is much to read before the next draw.

        Where nothing is to be drawn there may never be one.
        """
        behind = reach.committed_length - len(self._sequence.prefix)
        return self._draws and reach.until > reach.committed_length and behind > MOST_BEHIND

    def _copy(self, reach: Reach) -> None:
        """The copies that come next, if any."""
        if self._copying is None:
            return
        self._copying.commit(reach.committed_length)
        if self._by_chance and self._unsent_drawn and self._length < reach.answered_from:
            return
        while (token := self._copying.next(reach)) is not None:
            self._extend(token)

    def _give_copies(self, reach: Reach) -> Answering:
        """Those at the beginning need not wait for a forward."""
        if self._unsent_copied and not self._unsent_drawn:
            yield Answer(self._result(reach))

    def _read_known(self, reach: Reach) -> Reading:
        """Draws nothing: reads what is committed, and what branches are to begin from."""
        wanted = max(self._first, self._length - 1) if reach.branches else self._first
        if count := max(0, wanted - len(self._sequence.prefix)):
            yield Chunk(self._sequence, self._unread(count), rows=0, final=self._stateless)
        self._branch_out(reach)

    def _step(self, orders: Orders) -> Reading:
        """A forward, and the tokens that are still wanted then."""
        chunk = Chunk(self._sequence, (), rows=0)
        if self._draws_on(orders.reach):
            chunk = self._all_unread()
        elif self._is_behind(orders.reach):
            chunk = self._some_unread(orders.reach)
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
            self._draw(tokens.pop(0))
        self._branches.grow(tokens)

    def _all_unread(self) -> Chunk:
        """Everything without state; the last token once more where there is nothing else."""
        unread = self._unread()
        if not unread:
            unread = [self._sequence.prefix.token_ids[-1]]
            self._sequence.rollback(self._length - 1)
        return Chunk(self._sequence, unread, rows=1, final=self._stateless)

    def _some_unread(self, reach: Reach) -> Chunk:
        """The first of the committed ids without state."""
        count = min(READ_AT_ONCE, reach.committed_length - len(self._sequence.prefix))
        unread = self._unread(count)
        return Chunk(self._sequence, unread, rows=0, final=min(count, self._stateless))

    def _draw(self, token: DraftedToken) -> None:
        """The chain's next token was drawn."""
        if self._copying is not None:
            self._copying.drawn(token.token_id)
        self._extend(token)

    def _extend(self, token: DraftedToken) -> None:
        """The chain's next token."""
        if self._committed_digest is None:
            self._committed_digest = self._digest()
        self._places.append(Place(self._last, token.alternatives))
        self._last = self._tokens.add(token, parent=self._last)
        if self._copying is None:
            self._ids_behind_base.append(token.token_id)
        self._length += 1
        self._unsent_copied |= token.copied
        self._unsent_drawn |= not token.copied

    def _digest(self) -> int:
        """Of the ids that were committed when the job began; they may have no state yet."""
        prefix = self._sequence.prefix
        if self._copying is not None and len(prefix) < self._first:
            prefix = self._copying.text.prefix
        return prefix.digest(self._first)

    def _branch_out(self, reach: Reach) -> None:
        """Begins side branches as the chain grows, once all is drawn that is waited for."""
        if reach.branches and self._length >= reach.answered_from:
            # Behind copies that no forward has read there is no state to begin from.
            stateful = len(self._sequence.prefix) + 1 - self._first
            self._branches.open(
                self._sequence,
                self._places[max(0, reach.committed_length - self._first) : max(0, stateful)],
                first=max(reach.committed_length, self._first),
                reach=reach,
            )

    @property
    def _copied_from(self) -> int:
        """Committed ids that are kept for being copied."""
        return 0 if self._copying is None else len(self._copying.text)

    @property
    def _stateless(self) -> int:
        """Committed ids without state."""
        return max(0, self._first - len(self._sequence.prefix))

    def _result(self, reach: Reach) -> DraftResult:
        self._unsent_drawn = self._unsent_copied = False
        return DraftResult(
            reach.number,
            self._serial,
            tokens=self._tokens.take(),
            kept_length=max(len(self._sequence.prefix), self._copied_from),
            committed_digest=self._committed_digest,
        )
