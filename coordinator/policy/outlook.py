"""What speculating would earn a generation, and how it would be done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy.branching import best_count, hit_chances
from coordinator.policy.economics import BETTER, Chances, Choice, Costs, Economics
from coordinator.policy.measures import KindMeasures, PoolMeasures
from coordinator.policy.survival import Acceptance

LONGEST_AHEAD = 64
LONGEST_BRANCH = 6
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
"""Draft lengths that are weighed against each other."""
WORTH_DRAFTING = 0.03
"""A token is drafted ahead if it is used at least this often."""
BRANCH_COST = 0.005
"""What a side branch costs beside, in output tokens."""
MOST_OTHERS = 8.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """The best way to speculate, by what is known now.

    `going_on`: the draft works while the target does; else they take turns. `factor`: what an
    expected token is worth by experience.
    """

    choice: Choice
    costs: Costs
    chances: Chances
    lengths: Sequence[int]
    going_on: bool
    factor: float = 1.0
    branches: int = 0
    branch_length: int = 0

    @property
    def rate(self) -> float:
        """Output tokens in a second with drafts."""
        return self.choice.rate * self.factor

    @property
    def plain_rate(self) -> float:
        """Output tokens in a second of the target decoding alone."""
        return 1.0 / self.costs.plain_s

    @property
    def ratio(self) -> float:
        """What speculation earns, in what the target earns alone."""
        return self.rate / self.plain_rate

    @property
    def burden(self) -> float:
        """What it costs the others when one alone in a batch speculates: each step waits for it."""
        costs = self.costs
        return min(MOST_OTHERS, costs.others) * (costs.verify_s / costs.plain_s - 1.0)

    def survival(self, length: int) -> float:
        """Probability that so many draft tokens are all accepted."""
        survival = self.chances.survival
        if length <= len(survival):
            return survival[length - 1] if length else 1.0
        last = survival[-1] / survival[-2] if len(survival) > 1 else survival[-1]
        return survival[-1] * float(last ** (length - len(survival)))

    def ahead(self, length: int, *, room: int) -> int:
        """How many tokens the draft goes on beyond that many: it should not idle until it hears of
        the verdict, nor draft what is hardly ever used."""
        costs = self.costs
        busy_s = costs.round_s(length) + costs.round_trip_s
        steps = math.ceil(busy_s / max(costs.token_s, 1e-4)) + self.choice.plain
        most = min(room - length, steps, LONGEST_AHEAD)
        ahead = 0
        while ahead < most and self.survival(length + ahead) > WORTH_DRAFTING:
            ahead += 1
        return ahead

    def with_costs(self, costs: Costs) -> Outlook:
        """The best way at other costs."""
        economics = Economics(costs, self.chances, ahead=self.going_on)
        return replace(self, costs=costs, choice=economics.best(self.lengths))

    def with_branches(self, most: int | None, *, hit_factor: float, draft_row: float) -> Outlook:
        """As many side branches as pay, or `most` if that is given."""
        costs, choice = self.costs, self.choice
        chances = hit_chances(self.chances.survival, choice.length)
        hits = [min(0.95, hit_factor * one) for one in chances]
        steps = int(costs.round_s(choice.length) / max(costs.token_s, 1e-4))
        branch_length = max(1, min(choice.length, LONGEST_BRANCH, steps - 1))
        count = most
        if count is None:
            # What a branch delays the tokens after it by is missing at the end of the next round.
            tail = self.survival(max(choice.length, steps))
            count = best_count(
                hits,
                miss=1.0 - self.survival(choice.length),
                lead=choice.lead,
                row_cost=draft_row * branch_length * (1.0 + costs.others) * tail + BRANCH_COST,
            )
        if count == 0:
            return self
        with_hits = replace(self.chances, hit=hits[min(count, len(hits) - 1)])
        return replace(
            self,
            choice=Economics(costs, with_hits, ahead=True).rated(choice),
            chances=with_hits,
            branches=count,
            branch_length=branch_length,
        )


def outlook(
    terms: SpeculationTerms,
    acceptance: Acceptance,
    kind: KindMeasures,
    measures: PoolMeasures,
    *,
    kept: Outlook | None = None,
) -> Outlook:
    """What is best for a generation with that acceptance. `kept`: what was best so far.

    Where draft and target slow each other down, taking turns may be better than going on.
    """
    longest = terms.draft_length or terms.max_draft_length
    lengths = [length for length in LENGTHS if length < longest] + [longest]
    if terms.draft_length is not None:
        lengths = [longest]
    chances = Chances(
        survival=acceptance.survival(longest),
        match=kind.foresight.match(acceptance.overall),
        bonus_free=terms.bonus_free,
    )

    def view(*, ahead: bool) -> Outlook:
        costs = measures.times.costs(ahead=ahead)
        before = kept.choice if kept is not None and kept.going_on == ahead else None
        choice = Economics(costs, chances, ahead=ahead).best(lengths, kept=before)
        return Outlook(choice, costs, chances, lengths, ahead, kind.audit.factor)

    turns = view(ahead=False)
    if not terms.draft_ahead:
        return turns
    both = view(ahead=True).with_branches(
        terms.branches, hit_factor=kind.hits.factor, draft_row=measures.times.draft_row
    )
    if kept is None or kept.going_on:
        return turns if turns.rate > BETTER * both.rate else both
    return both if both.rate > BETTER * turns.rate else turns
