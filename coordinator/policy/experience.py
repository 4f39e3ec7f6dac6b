"""What one generation learns, for itself and for all."""

from __future__ import annotations

from coordinator.draft_plan import (
    DraftFacts,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    SpeculationTerms,
)
from coordinator.policy.belief import Belief
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.copies import Copies
from coordinator.policy.measures import KindMeasures, PoolMeasures
from coordinator.policy.outcomes import of_copied, of_drawn
from coordinator.policy.outlook import Outlook
from coordinator.policy.standing import Standing
from coordinator.policy.survival import Acceptance

RESTED = 1.5
"""A draft has rested during a round if it did so for this many times as long."""
WEIGHT, MEMORY = 24.0, 40.0
DROP, RISE, TOKENS, ROUNDS = 5.0, 6.0, 3, 6
STUBBORN = 3.0
"""Added to the threshold of a change for each recent turn."""


class Experience:
    """Times, acceptance, hits of branches, and whether speculation earned what was promised."""

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures, kind: KindMeasures) -> None:
        self._terms = terms
        self._measures = measures
        self._kind = kind
        self._belief = Belief(
            Acceptance(kind.belief.acceptance, weight=WEIGHT, memory=MEMORY),
            ChangeWatch(drop=DROP, rise=RISE, tokens=TOKENS, rounds=ROUNDS),
        )
        self._expected_hit = 0.0
        self.copies = Copies(kind.copies)
        """What became of copied tokens."""
        self.changed = False
        """Acceptance is no longer what it was."""
        self.compared = False
        """Something new is known of acceptance."""
        self.waited_in_vain = False
        """Draft tokens were waited for and did not come; none has come since."""

    @property
    def acceptance(self) -> Acceptance:
        """Of this generation's draft tokens."""
        return self._belief.acceptance

    def round(
        self, facts: RoundFacts, plan: DraftPlan, view: Outlook | None, standing: Standing
    ) -> None:
        """Learns from a verdict, in the next idle moment: `plan` and `view` are the latest."""
        self._time(facts, plan)
        if not facts.in_run:
            in_vain = facts.drafted == 0 and not facts.copies_alone
            self.waited_in_vain |= facts.wait_s > 0.0 and in_vain
            self._count_hits(facts, plan, view)
            if view is not None and standing.on:
                self._audit(facts, view)
        self.copies.judged(of_copied(facts))
        if drawn := of_drawn(facts):
            if not standing.on:
                measures = self._measures
                accepted = sum(outcome.accepted for outcome in drawn)
                measures.judging.earned(accepted * measures.times.plain_s)
            stubborn = STUBBORN * standing.recent_changes
            self._notice(
                own=self._belief.judged(drawn, stubborn=stubborn),
                common=self._kind.belief.judged(drawn),
            )

    def drafted(self, facts: DraftFacts, plan: DraftPlan) -> None:
        """Learns from a proposal."""
        in_turn = plan.draft_length > 0 and not plan.ahead
        self._measures.times.drafted(facts, ahead=not in_turn)
        self.waited_in_vain = False
        if facts.copied is not None:
            self.copies.offered(facts.copied)

    def foresaw(self, facts: ForesightFacts, standing: Standing) -> None:
        """A match means what an acceptance means, where bonuses are free; elsewhere it hints."""
        if facts.copied:
            self.copies.compared(matched=facts.matched, run=facts.run)
            return
        matched, acceptance = facts.matched, self.acceptance.overall
        foresight, measures = self._kind.foresight, self._measures
        sign = not standing.on and foresight.sign(matched=matched, acceptance=acceptance)
        if self._terms.bonus_free:
            stubborn = STUBBORN * standing.recent_changes
            self._notice(
                own=self._belief.compared(matched=matched, stubborn=stubborn),
                common=self._kind.belief.compared(matched=matched),
            )
            if sign:
                measures.probing.hurry()
            return
        if standing.on:
            foresight.learn(matched=matched, acceptance=acceptance)
        if sign:
            measures.judging.at_once()

    def _notice(self, *, own: bool, common: bool) -> None:
        """Whether acceptance has changed, by what this generation saw or by what all saw."""
        self.changed |= own
        self.compared = True
        if own or common:
            self._measures.look_again()

    def _time(self, facts: RoundFacts, plan: DraftPlan) -> None:
        """What it took, and whether a draft was at work meanwhile."""
        measures = self._measures
        if plan.ahead:
            measures.draft_works()
        rested = measures.draft_rested(RESTED * facts.verify_s)
        measures.times.round(facts, draft_works=not rested)
        if rested:
            measures.quiet.seen(slowdown=measures.times.steps.slowdown)
        else:
            measures.quiet.worked()

    def _count_hits(self, facts: RoundFacts, plan: DraftPlan, view: Outlook | None) -> None:
        """After a miss the next round tells whether a branch held the correction."""
        if self._expected_hit:
            self._kind.hits.missed(expected=self._expected_hit, hits=int(facts.guess))
        self._expected_hit = 0.0
        copied = any(facts.copied[facts.accepted : facts.accepted + 1])
        if plan.branches and view and facts.accepted < facts.drafted and not copied:
            self._expected_hit = view.chances.hit / self._kind.hits.factor

    def _audit(self, facts: RoundFacts, view: Outlook) -> None:
        """Holds what came against what was expected of the time it took.

        Copied tokens were not promised: rounds with some say nothing of what was.
        """
        kind, times = self._kind, self._measures.times
        if not kind.standing.on or facts.copies_alone or any(facts.copied):
            return
        earned = facts.output - view.costs.others_price * facts.drafted
        steps = (facts.wait_s + facts.verify_s) / times.plain_s
        kind.audit.add(
            earned=earned / times.batch_size, promised=kind.promised * steps / times.batch_size
        )
