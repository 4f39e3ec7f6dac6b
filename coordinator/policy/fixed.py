"""A draft length that is fixed: only how many copies follow is chosen, and all is waited for."""

from __future__ import annotations

import math

from coordinator.draft_plan import (
    LONGEST_RUN,
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy.changes import ChangeLog
from coordinator.policy.copies import Copies
from coordinator.policy.measures import PoolMeasures
from coordinator.policy.outcomes import of_copied
from coordinator.policy.outlook import LONGEST_AHEAD
from coordinator.policy.patience import Patience
from outrider.v1 import generation_pb2


class FixedPolicy:
    """Every round has as many draft tokens as the request says, or as there is room for."""

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._length = terms.draft_length or 0
        self._most_copies = terms.max_draft_length - self._length
        self._copies = Copies(measures.of(bonus_free=terms.bonus_free).copies)
        self._times = measures.times
        self._log = ChangeLog()
        self._patience = Patience(measures.clock, terms.patience_s)

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """When there was a draft, and when not."""
        return self._log.changes

    def plan(self, situation: Situation) -> DraftPlan:
        """The same for every round."""
        self._patience.begin_round()
        wanted = self._length if situation.draft_ready else 0
        reason = "REQUEST" if situation.draft_ready else "DRAFT_MISSING"
        self._log.note(offset=situation.offset, draft_length=wanted, reason=reason)
        length = max(0, min(wanted, situation.room))
        if length == 0:
            return DraftPlan(0, run=LONGEST_RUN)
        copying = situation.copying
        copies = self.copies(drawn=0, run=copying.run) if copying is not None else 0
        if not self._terms.draft_ahead:
            return DraftPlan(length, copies=copies)
        branches = self._terms.branches or 0
        return DraftPlan(
            length,
            ahead=min(self._ahead(), situation.room - length),
            branches=branches,
            branch_length=length if branches else 0,
            copies=2 * copies,
        )

    def copies(self, *, drawn: int, run: int) -> int:
        """As many as the request says, else those that are likely to be accepted."""
        if self._terms.copies is not None:
            return min(self._terms.copies, self._most_copies)
        return self._copies.likely(run=run, limit=self._most_copies)

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """All that is left of the round's, as long as a token may still come."""
        return 0.0 if math.isinf(next_in_s) else self._patience.left_s

    def round(self, facts: RoundFacts) -> None:
        """How copied tokens fared says how many more are verified; nothing else depends on it."""
        self._copies.judged(of_copied(facts))

    def drafted(self, facts: DraftFacts) -> None:
        """How long drafting takes says how far the draft may go ahead."""
        self._times.drafted(facts, ahead=self._terms.draft_ahead)

    def foresaw(self, facts: ForesightFacts) -> None:
        """Nothing depends on it."""

    def _ahead(self) -> int:
        """Enough for two rounds more."""
        return min(LONGEST_AHEAD, 2 * self._length)
