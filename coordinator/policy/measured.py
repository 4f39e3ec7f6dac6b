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
from coordinator.policy.belief import Belief
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.changes import ChangeLog
from coordinator.policy.measures import PoolMeasures
from coordinator.policy.newcomers import look_for_newcomers
from coordinator.policy.outlook import Outlook, outlook
from coordinator.policy.patience import Patience
from coordinator.policy.reasons import in_figures, reason_against
from coordinator.policy.standing import Standing
from coordinator.policy.survival import Acceptance
from coordinator.policy.waiting import Moment, patience_for, worth_waiting
from outrider.v1 import generation_pb2

FIRST_LENGTH = 4
"""Draft tokens of a round while nothing is known."""
FIRST_PATIENCE_S = 0.02
QUIET_RUN = 2
RESTED = 1.5
"""A draft has rested during a round if it did so for this many times as long."""
WEIGHT, MEMORY = 24.0, 40.0
DROP, RISE, TOKENS, ROUNDS = 3.9, 6.0, 3, 6
STUBBORN = 3.0
"""Added to the threshold of a change for each recent turn."""
EVERY, EARLY = 8, 4
"""Rounds between two looks at the figures, later on and in the beginning."""
BEGINNING = 16


class MeasuredPolicy:
    """Speculates as long as it pays, as far as it pays, and looks now and then whether it would."""

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._measures = measures
        self._kind = measures.of(bonus_free=terms.bonus_free)
        self._belief = Belief(
            Acceptance(self._kind.belief.acceptance, weight=WEIGHT, memory=MEMORY),
            ChangeWatch(drop=DROP, rise=RISE, tokens=TOKENS, rounds=ROUNDS),
        )
        on = self._kind.standing.on or not terms.may_stop
        self._standing = Standing(measures.clock, on=on)
        self._alone = Alone(terms, measures)
        self._patience = Patience(measures.clock, terms.patience_s)
        self._log = ChangeLog()
        self._view: Outlook | None = None
        self._plan = DraftPlan(0)
        self._rounds = 0
        self._look_at = 0
        self._waited_in_vain = False
        self._changed = False
        self._expected_hit = 0.0
        self._word = "START" if terms.may_stop else "REQUEST"
        self._look()

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """What was changed on the way, the last 32."""
        return self._log.changes

    def plan(self, *, offset: int, room: int, draft_ready: bool, ready: int = 0) -> DraftPlan:
        """How to make the next round, by what is known now."""
        self._patience.begin_round()
        if room < 1:
            return DraftPlan(0, run=RUN)
        if not draft_ready:
            self._plan = DraftPlan(0, run=RUN)
            self._log.note(offset=offset, draft_length=0, reason="DRAFT_MISSING")
            return self._plan
        if not self._standing.on:
            self._look()
        usual = self._usual_length if self._standing.on else 0
        if usual != self._log.draft_length:
            self._log.note(offset=offset, draft_length=usual, reason=self._reason)
        self._plan = self._choose(room=room, offset=offset, ready=ready)
        if self._plan.ahead:
            self._measures.draft_works()
        return self._plan

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """As long as the next token is likely to come, if it is worth waiting for."""
        if math.isinf(next_in_s) or self._waited_in_vain:
            return 0.0
        left_s = self._patience.left_s
        if not self._standing.on:
            return min(left_s, patience_for(next_in_s)) if self._alone.waits else 0.0
        if self._view is None:
            return min(left_s, FIRST_PATIENCE_S)
        moment = Moment(tokens, self._patience.spent_s, next_in_s, max(1, self._plan.together))
        if not worth_waiting(self._view, moment):
            return 0.0
        return min(left_s, patience_for(next_in_s))

    def round(self, facts: RoundFacts) -> None:
        """Learns from a verdict."""
        self._rounds += 1
        self._time(facts)
        if not facts.in_run:
            self._alone.waits = False
            self._waited_in_vain |= facts.wait_s > 0.0 and facts.drafted == 0
            self._count_hits(facts)
            self._audit(facts)
        if facts.drafted:
            seen = {"drafted": facts.drafted, "accepted": facts.accepted}
            self._notice(
                own=self._belief.judged(**seen, stubborn=self._stubborn),
                common=self._kind.belief.judged(**seen),
            )
        self._look()

    def drafted(self, facts: DraftFacts) -> None:
        """Learns from a proposal."""
        in_turn = self._plan.draft_length > 0 and not self._plan.ahead
        self._measures.times.drafted(facts, ahead=not in_turn)
        self._waited_in_vain = False

    def foresaw(self, facts: ForesightFacts) -> None:
        """A match means what an acceptance means, where bonuses are free."""
        if not facts.drawn:
            return
        if not self._terms.bonus_free:
            self._kind.match.compared(accepted=facts.matched)
            return
        self._notice(
            own=self._belief.compared(matched=facts.matched, stubborn=self._stubborn),
            common=self._kind.belief.compared(matched=facts.matched),
        )

    @property
    def _stubborn(self) -> float:
        return STUBBORN * self._standing.recent_changes

    @property
    def _usual_length(self) -> int:
        if self._view is None:
            return min(self._terms.draft_length or FIRST_LENGTH, self._terms.max_draft_length)
        return self._view.choice.length

    @property
    def _reason(self) -> str:
        return f"{self._word}: {in_figures(self._view)}" if self._view else self._word

    def _choose(self, *, room: int, offset: int, ready: int) -> DraftPlan:
        if not self._standing.on:
            return self._alone.plan(room=room)
        if offset and self._terms.may_stop and self._measures.quiet.now():
            return DraftPlan(0, run=QUIET_RUN)
        return self._speculate(room=room, ready=ready)

    def _speculate(self, *, room: int, ready: int) -> DraftPlan:
        view = self._view
        length = min(self._usual_length, room)
        if view is None:
            ahead = min(2 * length, room - length) if self._terms.draft_ahead else 0
            return DraftPlan(length, ahead=ahead)
        if not view.ahead_allowed:
            return DraftPlan(length)
        together = 0
        if not ready:
            together = min(length, 1 if view.choice.plain else view.choice.first)
        return DraftPlan(
            length,
            ahead=view.ahead(length, room=room),
            together=together,
            branches=view.branches,
            branch_length=view.branch_length,
            acceptance=view.survival(1),
        )

    def _notice(self, *, own: bool, common: bool) -> None:
        """Whether acceptance has changed, by what this generation saw or by what all saw."""
        self._changed |= own
        if own or not self._standing.on:
            self._look_at = self._rounds
        if own or common:
            self._measures.probing.hurry()

    def _time(self, facts: RoundFacts) -> None:
        """What it took, and whether a draft was at work meanwhile."""
        measures = self._measures
        if self._plan.ahead:
            measures.draft_works()
        rested = measures.draft_rested(RESTED * facts.verify_s)
        measures.times.round(facts, draft_works=not rested)
        if rested:
            measures.quiet.seen(slowdown=measures.times.steps.slowdown)
        else:
            measures.quiet.worked()

    def _count_hits(self, facts: RoundFacts) -> None:
        """After a miss the next round tells whether a branch held the correction."""
        if self._expected_hit:
            self._kind.hits.missed(expected=self._expected_hit, hits=int(facts.guess))
        self._expected_hit = 0.0
        if self._plan.branches and self._view and facts.accepted < facts.drafted:
            self._expected_hit = self._view.chances.hit / self._kind.hits.factor

    def _audit(self, facts: RoundFacts) -> None:
        """Holds what came against what was expected of the time it took."""
        kind = self._kind
        times = self._measures.times
        if self._standing.on and kind.standing.on and self._view is not None:
            earned = facts.output - self._view.costs.others_price * facts.drafted
            elapsed_s = facts.wait_s + facts.verify_s
            kind.audit.add(
                earned=earned / times.batch_size,
                promised=kind.promised * elapsed_s / times.plain_s / times.batch_size,
            )

    def _look(self) -> None:
        """Weighs it all up anew, every few rounds."""
        if not self._measures.times.known or self._rounds < self._look_at:
            return
        self._look_at = self._rounds + (EARLY if self._rounds < BEGINNING else EVERY)
        view = outlook(
            self._terms, self._belief.acceptance, self._kind, self._measures, kept=self._view
        )
        self._view = view
        if not self._terms.may_stop:
            return
        burden = 0.0 if self._kind.standing.on else view.burden
        if self._standing.judge(view.ratio, burden=burden):
            against = "ACCEPTANCE" if self._changed else reason_against(view)
            self._word = "PROBE" if self._standing.on else against
            if not self._standing.on:
                self._measures.probing.hurry()
        elif self._standing.on:
            self._word = "ACCEPTANCE"
        self._changed = False
        look_for_newcomers(self._terms, self._kind, self._measures)
