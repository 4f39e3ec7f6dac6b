"""What speculating would earn a generation, and how it would be done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy.branching import best_count, hit_chances
from coordinator.policy.economics import Chances, Choice, Costs, Economics
from coordinator.policy.measures import KindMeasures, PoolMeasures
from coordinator.policy.survival import Acceptance

LONGEST_AHEAD = 64
LONGEST_BRANCH = 6
WORTH_DRAFTING = 0.03
"""A token is drafted ahead if it is used at least this often."""
BRANCH_COST = 0.005
DRAFT_ROW = 0.04
"""What a row adds to a step of the draft, as a part of it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The best way to speculate, by what is known now. `rate` and `plain_rate`: tokens in a
    second, with drafts and without."""

    choice: Choice
    costs: Costs
    chances: Chances
    branches: int
    branch_length: int
    factor: float = 1.0

    @property
    def rate(self) -> float:
        """With drafts, as audited."""
        return self.choice.rate * self.factor

    @property
    def plain_rate(self) -> float:
        """Of the target decoding alone."""
        return 1.0 / self.costs.plain_s

    def survival(self, place: int) -> float:
        """Probability that so many draft tokens are all accepted."""
        survival = self.chances.survival
        if place <= len(survival):
            return survival[place - 1] if place else 1.0
        last = survival[-1] / survival[-2] if len(survival) > 1 else survival[-1]
        return survival[-1] * float(last ** (place - len(survival)))

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


def outlook(
    terms: SpeculationTerms,
    acceptance: Acceptance,
    kind: KindMeasures,
    measures: PoolMeasures,
    *,
    kept: Choice | None = None,
) -> Outlook:
    """What is best for a generation with that acceptance. `kept`: what was best so far."""
    costs = measures.times.costs()
    longest = terms.max_draft_length
    lengths: Sequence[int] = range(1, longest + 1)
    if terms.draft_length is not None:
        lengths = [max(1, terms.draft_length)]
        longest = lengths[0]
    match = acceptance.overall if terms.bonus_free else kind.match.overall
    chances = Chances(
        survival=acceptance.survival(longest), match=match, bonus_free=terms.bonus_free
    )
    choice = Economics(costs, chances, ahead=terms.draft_ahead).best(lengths, kept=kept)
    plain = Outlook(choice, costs, chances, 0, 0, kind.audit.factor)
    if not terms.draft_ahead or terms.branches == 0:
        return plain
    batch = measures.times.batch_size
    return _with_branches(plain, terms, kind, lengths=lengths, batch=batch, kept=kept)


def _with_branches(
    plain: Outlook,
    terms: SpeculationTerms,
    kind: KindMeasures,
    *,
    lengths: Sequence[int],
    batch: float,
    kept: Choice | None,
) -> Outlook:
    """Adds as many side branches as pay; what they earn changes all the rest."""
    costs, choice = plain.costs, plain.choice
    factor = kind.hits.factor
    hits = [min(0.95, factor * one) for one in hit_chances(plain.chances.survival, choice.length)]
    steps = int(costs.round_s(choice.length) / max(costs.token_s, 1e-4))
    branch_length = max(1, min(choice.length, LONGEST_BRANCH, steps - 1))
    miss = 1.0 - plain.survival(choice.length)
    # What a branch delays the tokens after it by is missing at the end of the next round.
    row_cost = (
        DRAFT_ROW * branch_length * batch * plain.survival(max(choice.length, steps)) + BRANCH_COST
    )
    most = terms.branches if terms.branches is not None else len(hits) - 1
    count = best_count(
        hits, miss=miss, lead=choice.lead, row_cost=row_cost, most=min(most, len(hits) - 1)
    )
    if terms.branches is not None:
        count = terms.branches
    if count == 0:
        return plain
    chances = replace(plain.chances, hit=hits[min(count, len(hits) - 1)])
    choice = Economics(costs, chances, ahead=True).best(lengths, kept=kept)
    return Outlook(choice, costs, chances, count, branch_length, plain.factor)
