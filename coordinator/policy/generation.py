"""The choices for one generation."""

from __future__ import annotations

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    SpeculationTerms,
)
from coordinator.policy.changes import ChangeLog
from outrider.v1 import generation_pb2

DEFAULT_DRAFT_LENGTH = 4
LONGEST_AHEAD = 64
RUN = 32


class GenerationPolicy:
    """Chooses round by round; is told what each round, proposal and token showed."""

    def __init__(self, terms: SpeculationTerms) -> None:
        self._terms = terms
        self._log = ChangeLog()

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """What was changed on the way, the last 32."""
        return self._log.changes

    def plan(self, *, offset: int, room: int, draft_ready: bool) -> DraftPlan:
        """How to make the next round, the first one included.

        `offset`: output tokens so far. `room`: most draft tokens that can still become output.
        `draft_ready`: there is a draft that fits and answers.
        """
        if not draft_ready or room < 1:
            reason = "ROOM" if draft_ready else "DRAFT_MISSING"
            return DraftPlan(draft_length=0, run=RUN, reason=reason)
        wanted = self._terms.draft_length
        if wanted is None:
            wanted = min(DEFAULT_DRAFT_LENGTH, self._terms.max_draft_length)
        self._log.note(offset=offset, draft_length=wanted, reason="START")
        length = min(wanted, room)
        if not self._terms.draft_ahead:
            return DraftPlan(draft_length=length, reason="START")
        ahead = min(2 * wanted, room - length, LONGEST_AHEAD)
        branches = self._terms.branches or 0
        return DraftPlan(
            draft_length=length,
            ahead=ahead,
            branches=branches,
            branch_length=length if branches else 0,
            reason="START",
        )

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """How long the round may wait from now for one more draft token; 0: not at all.

        `tokens` are there, the next is expected in `next_in_s`, inf when none is under way. The
        answer depends on counts and clocks alone.
        """
        return self._terms.patience_s

    def round(self, facts: RoundFacts) -> None:
        """A round was decided."""

    def drafted(self, facts: DraftFacts) -> None:
        """A proposal came."""

    def foresaw(self, facts: ForesightFacts) -> None:
        """The target chose a token without judging a draft's."""
