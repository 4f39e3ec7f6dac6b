"""A draft length that is chosen by what was measured."""

from __future__ import annotations

import math

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    SpeculationTerms,
)
from coordinator.policy.alone import RUN, Alone
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.changes import ChangeLog
from coordinator.policy.measures import PoolMeasures
from coordinator.policy.outlook import Outlook, outlook
from coordinator.policy.patience import Patience
from coordinator.policy.standing import Standing, in_figures, reason_against
from coordinator.policy.survival import Acceptance
from coordinator.policy.waiting import Moment, patience_for, worth_waiting
from outrider.v1 import generation_pb2

FIRST_LENGTH = 4
"""Draft tokens of a round while nothing is known."""
FIRST_PATIENCE_S = 0.02
OWN_WEIGHT, OWN_MEMORY = 10.0, 40.0
OWN_THRESHOLD, OWN_TOKENS, OWN_ROUNDS = 4.0, 3, 10
STUBBORN = 2.0
"""Added to the threshold of a drop for each recent change."""
EVERY = 4
"""Rounds between two looks at the figures."""


class MeasuredPolicy:
    """Speculates as long as it pays, as far as it pays, and looks now and then whether it would."""

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._measures = measures
        self._kind = measures.of(bonus_free=terms.bonus_free)
        self._acceptance = Acceptance(self._kind.acceptance, weight=OWN_WEIGHT, memory=OWN_MEMORY)
        self._watch = ChangeWatch(threshold=OWN_THRESHOLD, tokens=OWN_TOKENS, rounds=OWN_ROUNDS)
        self._standing = Standing(measures.clock, on=self._kind.on or not terms.may_stop)
        self._patience = Patience(measures.clock, terms.patience_s)
        self._log = ChangeLog()
        self._outlook: Outlook | None = None
        self._plan = DraftPlan(0)
        self._rounds = 0
        self._looked_at = -EVERY
        self._alone = Alone(terms, measures)
        self._waited_in_vain = False
        self._expected_hit = 0.0
        self._reason = "START"
        self._look()

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """What was changed on the way, the last 32."""
        return self._log.changes

    def plan(self, *, offset: int, room: int, draft_ready: bool, ready: int = 0) -> DraftPlan:
        """How to make the next round, by what is known now."""
        self._patience.begin_round()
        self._plan = self._choose(room=room, draft_ready=draft_ready, ready=ready)
        if room > 0:
            length = self._usual_length if draft_ready and self._standing.on else 0
            reason = self._reason if draft_ready else "DRAFT_MISSING"
            self._log.note(offset=offset, draft_length=length, reason=reason)
        return self._plan

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """As long as the next token is likely to come, if it is worth waiting for."""
        if math.isinf(next_in_s) or self._waited_in_vain:
            return 0.0
        left_s = self._patience.left_s
        if not self._standing.on:
            return min(left_s, patience_for(next_in_s)) if self._alone.waits else 0.0
        if self._outlook is None:
            return min(left_s, FIRST_PATIENCE_S)
        moment = Moment(tokens, self._patience.spent_s, next_in_s, max(1, self._plan.together))
        if not worth_waiting(self._outlook, moment):
            return 0.0
        return min(left_s, patience_for(next_in_s))

    def round(self, facts: RoundFacts) -> None:
        """Learns from a verdict."""
        self._rounds += 1
        elapsed_s = facts.wait_s + facts.verify_s
        self._measures.times.round(facts)
        self._count_hits(facts)
        if self._standing.on and self._outlook is not None and not facts.in_run:
            costs = self._outlook.costs
            self._kind.audit.add(
                earned=facts.output - costs.others_price * facts.drafted,
                promised=self._outlook.choice.rate * elapsed_s,
            )
        if not facts.in_run:
            self._alone.waits = False
            self._waited_in_vain |= facts.wait_s > 0.0 and facts.drafted == 0
        if facts.drafted:
            self._judged(facts)
        self._look()

    def drafted(self, facts: DraftFacts) -> None:
        """Learns from a proposal."""
        self._measures.times.drafted(facts)
        self._waited_in_vain = False

    def foresaw(self, facts: ForesightFacts) -> None:
        """A match means what an acceptance means, where bonuses are free."""
        if not facts.drawn:
            return
        if not self._terms.bonus_free:
            self._kind.match.compared(accepted=facts.matched)
            return
        self._notice(drafted=1, accepted=int(facts.matched))
        for one in (self._acceptance, self._kind.acceptance):
            one.compared(accepted=facts.matched)

    @property
    def _usual_length(self) -> int:
        if self._outlook is None:
            return min(self._terms.draft_length or FIRST_LENGTH, self._terms.max_draft_length)
        return self._outlook.choice.length

    def _choose(self, *, room: int, draft_ready: bool, ready: int) -> DraftPlan:
        if not draft_ready or room < 1:
            return DraftPlan(0, run=RUN, reason="ROOM" if draft_ready else "DRAFT_MISSING")
        if not self._standing.on:
            self._look()
        if self._standing.on:
            return self._speculate(room=room, ready=ready)
        return self._alone.plan(room=room, reason=self._reason)

    def _speculate(self, *, room: int, ready: int) -> DraftPlan:
        view = self._outlook
        if view is None:
            length = min(self._usual_length, room)
            ahead = min(2 * length, room - length) if self._terms.draft_ahead else 0
            return DraftPlan(length, ahead=ahead, reason="START")
        choice = view.choice
        length = min(room, choice.length)
        if not self._terms.draft_ahead:
            return DraftPlan(length, reason=self._reason)
        together = 0
        if not ready:
            together = min(length, 1 if choice.plain else choice.first)
        return DraftPlan(
            length,
            ahead=view.ahead(length, room=room),
            together=together,
            branches=view.branches,
            branch_length=view.branch_length,
            acceptance=view.survival(1),
            reason=self._reason,
        )

    def _judged(self, facts: RoundFacts) -> None:
        """Acceptance, of this generation and of all."""
        self._notice(drafted=facts.drafted, accepted=facts.accepted)
        for one in (self._acceptance, self._kind.acceptance):
            one.judged(drafted=facts.drafted, accepted=facts.accepted)

    def _notice(self, *, drafted: int, accepted: int) -> None:
        """Whether acceptance is still what it was; where not, what was is forgotten."""
        own, pool = self._acceptance, self._kind
        stubborn = STUBBORN * self._standing.recent_changes
        change = self._watch.judged(
            drafted=drafted, accepted=accepted, hazard=own.hazard, stubborn=stubborn
        )
        if change is not None:
            own.begin_anew(tokens=change.tokens, accepted=change.accepted)
            self._looked_at = -EVERY
        common = pool.watch.judged(
            drafted=drafted, accepted=accepted, hazard=pool.acceptance.hazard
        )
        if common is not None:
            pool.acceptance.begin_anew(tokens=common.tokens, accepted=common.accepted)
        if change or common:
            self._measures.probing.hurry()

    def _count_hits(self, facts: RoundFacts) -> None:
        """After a miss the next round tells whether a branch held the correction."""
        if self._expected_hit and not facts.in_run:
            self._kind.hits.missed(expected=self._expected_hit, hits=int(facts.guess))
        self._expected_hit = 0.0
        if self._plan.branches and self._outlook and facts.accepted < facts.drafted:
            self._expected_hit = self._outlook.chances.hit / self._kind.hits.factor

    def _look(self) -> None:
        """Weighs it all up anew, every few rounds."""
        times = self._measures.times
        if not times.known or self._rounds < self._looked_at + EVERY:
            return
        self._looked_at = self._rounds
        kept = self._outlook.choice if self._outlook else None
        view = outlook(self._terms, self._acceptance, self._kind, self._measures, kept=kept)
        self._outlook = view
        if not self._terms.may_stop:
            self._reason = f"REQUEST: {in_figures(view)}"
            return
        if self._standing.judge(view, alone=not self._kind.on):
            word = (
                "ACCEPTANCE"
                if self._standing.on
                else reason_against(view, ahead=self._terms.draft_ahead)
            )
            self._reason = f"{word}: {in_figures(view)}"
            if not self._standing.on:
                self._measures.probing.hurry()
        self._tell_pool(view)

    def _tell_pool(self, view: Outlook) -> None:
        pool = self._kind
        common = outlook(self._terms, pool.acceptance, pool, self._measures)
        ratio = common.rate / common.plain_rate
        on = ratio > (1.0 if pool.on else 1.05)
        if on != pool.on:
            pool.on = on
            self._measures.switches += 1
        pool.draft_length = common.choice.length if on else 0
        pool.reason = self._reason
