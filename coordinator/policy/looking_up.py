"""The target decodes alone, and copied tokens take the place of its steps where there are some."""

from __future__ import annotations

import math

from coordinator.draft_plan import LONGEST_RUN, Copying, DraftPlan, SpeculationTerms
from coordinator.policy.copies import Copies
from coordinator.policy.economics import Costs
from coordinator.policy.measures import PoolMeasures

SHORT_RUN = 4
"""When two tokens are left of a run, it is chosen whether it goes on: while its last one is under
way, a target no longer hears of it."""
USUAL_RUN = 6
"""A coordinator may be held up for a token more, and the target still hears of it in time."""
OFTEN = 0.15
"""What asking must be worth for runs to be as short as may be, in output tokens."""
MOST_ASKED = 128
ASKING_S = 0.0006
"""What it takes from the coordinator to ask a draft, to hear that there are no copies, and to tell
the target to go on."""
LEAST_SHARE, SHARE, LARGEST_SHARE = 0.005, 0.25, 0.1
"""Asking may take this part of the coordinator's time, for each token that it is worth; but at
least and at most so much."""


def asked(most: int, costs: Costs) -> int:
    """How many copied tokens the draft is asked for where a round has `most` of them: enough for
    the rounds until more can come."""
    rounds = 2 + int(costs.round_trip_s / costs.round_s(most))
    return min(most * rounds, MOST_ASKED)


class LookingUp:
    """Plans for one generation whose draft copies, and either does not draw or should not.

    A draft may be asked beside a run: that costs nothing, but what it copies is a token or two
    late, and they must have been right. Or it is waited for at each round without copies: that
    pays where it is near and what it offers is worth more than the wait.
    """

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures, copies: Copies) -> None:
        self._terms = terms
        self._times = measures.times
        self._copies = copies
        self.waits = False
        """The round that was planned last is to wait for what the draft offers."""

    def most(self, *, run: int) -> int:
        """How many copied tokens a round may have behind a run of them."""
        limit = self._terms.max_draft_length
        if self._terms.copies is not None:
            return min(self._terms.copies, limit)
        costs = self._times.costs(ahead=False)
        return self._copies.paying(costs, rate=1.0 / costs.plain_s, run=run, reach=1.0, limit=limit)

    def begin(self, *, copying: Copying) -> DraftPlan:
        """The first round: the draft looks while the target reads the prompt."""
        copies = asked(self.most(run=copying.run), self._times.costs(ahead=False))
        return DraftPlan(0, run=SHORT_RUN, copies=copies)

    def plan(self, *, copying: Copying) -> DraftPlan:
        """The next round."""
        self.waits = False
        most = self.most(run=copying.run)
        if not most:
            return DraftPlan(0, run=LONGEST_RUN)
        costs = self._times.costs(ahead=False)
        copies = asked(most, costs)
        hop_s = costs.verify_s - costs.plain_s
        ready = min(most, copying.ready)
        if ready:
            gain = self._copies.expected(ready, run=copying.run) - ready * costs.others_price
            if gain * costs.plain_s > hop_s + ready * costs.row_s:
                return DraftPlan(0, copies=copies)
        elif self._copies.worth * costs.plain_s > hop_s + self._waiting_s(costs):
            self.waits = True
            return DraftPlan(0, together=1, copies=copies)
        return DraftPlan(0, run=self._run(hop_s, costs.plain_s), copies=copies)

    def _waiting_s(self, costs: Costs) -> float:
        """What a round loses that waits for an answer: all ask at about the same time."""
        return costs.delay_s(costs.round_trip_s) + ASKING_S * self._times.batch_size

    def _run(self, hop_s: float, plain_s: float) -> int:
        """How far the target goes: half of that from one question to the next. No less than lets it
        hear that it is to go on before it has to stop."""
        worth = self._copies.worth
        if not self._times.seen:
            return SHORT_RUN
        share = min(LARGEST_SHARE, max(LEAST_SHARE, SHARE * worth))
        asking_s = max(hop_s, ASKING_S * self._times.batch_size / share)
        shortest = SHORT_RUN if worth > OFTEN else USUAL_RUN
        return max(shortest, min(LONGEST_RUN, 2 * math.ceil(asking_s / plain_s)))
