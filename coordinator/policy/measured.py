"""A draft length that is chosen by what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

from coordinator.draft_plan import (
    LONGEST_RUN,
    Copying,
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy.alone import Alone
from coordinator.policy.course import Course
from coordinator.policy.experience import Experience
from coordinator.policy.looking_up import LookingUp, asked
from coordinator.policy.measures import PoolMeasures
from coordinator.policy.newcomers import look_for_newcomers
from coordinator.policy.outlook import Outlook, outlook
from coordinator.policy.patience import Patience
from coordinator.policy.standing import Standing
from coordinator.policy.waiting import Moment, patience_for, worth_waiting
from outrider.v1 import generation_pb2

FIRST_LENGTH = 4
"""Draft tokens of a round while nothing is known."""
FIRST_PATIENCE_S = 0.02
QUIET_RUN = 2
EVERY, EARLY = 8, 4
"""Rounds between two looks at the figures, later on and in the beginning."""
BEGINNING = 16


class MeasuredPolicy:
    """Speculates as long as it pays, as far as it pays, and looks now and then whether it would."""

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._measures = measures
        self._kind = measures.of(bonus_free=terms.bonus_free)
        self._experience = Experience(terms, measures, self._kind)
        on = self._kind.standing.on or not terms.may_stop
        self._standing = Standing(measures.clock, on=on)
        self._alone = Alone(terms, measures)
        self._looking_up = LookingUp(terms, measures, self._experience.copies)
        self._looks_up = False
        """The round that was planned last has copied tokens at most."""
        self._patience = Patience(measures.clock, terms.patience_s)
        self._course = Course(may_stop=terms.may_stop)
        self._view: Outlook | None = None
        self._plan = DraftPlan(0)
        self._begun = False
        self._rounds = 0
        self._look_at = 0
        self._look()

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """What was changed on the way, the last 32."""
        return self._course.changes

    def plan(self, situation: Situation) -> DraftPlan:
        """How to make the next round, by what is known now."""
        self._patience.begin_round()
        self._looks_up = False
        first, self._begun = not self._begun, True
        offset, copying = situation.offset, situation.copying
        if situation.room < 1:
            return DraftPlan(0, run=LONGEST_RUN)
        if not situation.draft_ready:
            self._plan = DraftPlan(0, run=LONGEST_RUN)
            self._course.missing(offset=offset)
            return self._plan
        if not self._standing.on:
            self._look()
        if copying is not None and not copying.draws:
            self._course.only_copies(offset=offset)
            self._plan = self._look_up(first=first, copying=copying)
            return self._plan
        usual = self._usual_length if self._standing.on else 0
        self._course.goes_by(usual, offset=offset, view=self._view)
        if self._standing.on:
            self._plan = self._speculate(situation, first=first)
        else:
            self._plan = self._decode(room=situation.room, copying=copying, first=first)
        if self._plan.ahead:
            self._measures.draft_works()
        return self._plan

    def copies(self, *, drawn: int, run: int) -> int:
        """As many as are worth their rows behind tokens that may be rejected."""
        if self._terms.copies is not None:
            return self._terms.copies
        if self._looks_up or self._view is None:
            return self._looking_up.most(run=run)
        view = self._view
        return self._experience.copies.paying(
            view.costs,
            rate=view.rate,
            run=run,
            reach=view.survival(drawn),
            limit=self._terms.max_draft_length,
        )

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """As long as the next token is likely to come, if it is worth waiting for."""
        if math.isinf(next_in_s) or self._experience.waited_in_vain:
            return 0.0
        left_s = self._patience.left_s
        if next_in_s > left_s:
            # The time that a round may wait would be over before anything comes.
            return 0.0
        if self._looks_up or not self._standing.on:
            waits = self._looking_up.waits if self._looks_up else self._alone.waits
            return min(left_s, patience_for(next_in_s)) if waits else 0.0
        if self._view is None:
            return min(left_s, FIRST_PATIENCE_S)
        moment = Moment(tokens, self._patience.spent_s, next_in_s, max(1, self._plan.together))
        if not worth_waiting(self._view, moment):
            return 0.0
        return min(left_s, patience_for(next_in_s))

    def round(self, facts: RoundFacts) -> None:
        """Learns from a verdict."""
        self._rounds += 1
        self._experience.round(facts, self._plan, self._view, self._standing)
        self._look()

    def drafted(self, facts: DraftFacts) -> None:
        """Learns from a proposal."""
        self._experience.drafted(facts, self._plan)

    def foresaw(self, facts: ForesightFacts) -> None:
        """Learns from a token that no draft token was judged for."""
        self._experience.foresaw(facts, self._standing)

    @property
    def _usual_length(self) -> int:
        if self._view is None:
            return min(self._terms.draft_length or FIRST_LENGTH, self._terms.max_draft_length)
        return self._view.choice.length

    def _decode(self, *, room: int, copying: Copying | None, first: bool) -> DraftPlan:
        """The model does not draft, unless it is tried. The draft may copy all the same."""
        if copying is not None and (first or copying.ready):
            return self._look_up(first=first, copying=copying)
        plan = self._alone.begin() if first else self._alone.plan(room=room)
        is_tried = plan.draft_length or plan.ahead
        if copying is None or is_tried:
            return plan
        return self._look_up(first=first, copying=copying)

    def _look_up(self, *, first: bool, copying: Copying) -> DraftPlan:
        self._looks_up = True
        if first:
            return self._looking_up.begin(copying=copying)
        return self._looking_up.plan(copying=copying)

    def _speculate(self, situation: Situation, *, first: bool) -> DraftPlan:
        if not first and self._measures.quiet.now():
            return DraftPlan(0, run=QUIET_RUN)
        plan = self._draw(room=situation.room, ready=situation.ready)
        if situation.copying is None:
            return plan
        most = self.copies(drawn=0, run=situation.copying.run)
        return replace(plan, copies=asked(most, self._measures.times.costs(ahead=True)))

    def _draw(self, *, room: int, ready: int) -> DraftPlan:
        view = self._view
        length = min(self._usual_length, room)
        if view is None:
            ahead = min(2 * length, room - length) if self._terms.draft_ahead else 0
            return DraftPlan(length, ahead=ahead)
        if not view.going_on:
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

    def _look(self) -> None:
        """Weighs it all up anew: every few rounds, and at once when something is new."""
        experience = self._experience
        new = experience.changed or (experience.compared and not self._standing.on)
        if not self._measures.times.known or (self._rounds < self._look_at and not new):
            return
        self._look_at = self._rounds + (EARLY if self._rounds < BEGINNING else EVERY)
        view = outlook(
            self._terms, experience.acceptance, self._kind, self._measures, kept=self._view
        )
        self._view = view
        if self._terms.may_stop:
            self._judge(view)
            look_for_newcomers(self._terms, self._kind, self._measures)
        experience.changed = experience.compared = False

    def _judge(self, view: Outlook) -> None:
        """Turns it off, or on again."""
        burden = 0.0 if self._kind.standing.on else view.burden
        if not self._standing.judge(view.ratio, burden=burden):
            return
        self._course.dropped = not self._standing.on and self._experience.changed
        if self._standing.on:
            self._kind.foresight.came_true()
        else:
            self._measures.look_again()
