"""What is done while speculation is off: the target decodes alone, the draft is tried at times."""

from __future__ import annotations

import math

from coordinator.draft_plan import DraftPlan, SpeculationTerms
from coordinator.policy.measures import PoolMeasures

RUN = 64
"""Most tokens between two looks at the clock."""
SHORTEST_RUN = 8
TRIED = 8
"""Tokens that are compared in a probe, beyond those that come too late."""
JUDGED = 4
"""Draft tokens that are judged in a probe."""


class Alone:
    """Plans for one generation; all generations of the pool share the times of probes.

    Where bonuses are free a probe costs next to nothing: the draft drafts beside the target's run,
    and a token that comes out the same would have been accepted. Elsewhere that says too little,
    and some tokens are waited for and judged.
    """

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._probing = measures.probing
        self._times = measures.times
        self.waits = False
        """The next round is to wait for its draft tokens; what is left of a run comes before."""

    def plan(self, *, room: int) -> DraftPlan:
        """The next round."""
        if self.waits:
            return DraftPlan(min(room, JUDGED))
        times = self._times
        plain_s = times.plain_s
        if self._probing.due_in_s > 0.0:
            steps = int(self._probing.due_in_s / max(1e-3, plain_s))
            return DraftPlan(0, run=max(SHORTEST_RUN, min(RUN, steps)))
        late = math.ceil(times.round_trip_s / max(1e-3, plain_s))
        ahead = min(room, late + TRIED)
        waiting_s, beside_s = self._prices(ahead)
        if self._terms.bonus_free and beside_s <= waiting_s:
            self._probing.begin(cost_s=beside_s)
            return DraftPlan(0, ahead=ahead, run=late + TRIED // 2)
        self.waits = True
        self._probing.begin(cost_s=waiting_s)
        return DraftPlan(min(room, JUDGED))

    def _prices(self, ahead: int) -> tuple[float, float]:
        """Seconds that a probe costs: by waiting for its tokens, or by drafting beside the run,
        which slows that down where both share a machine."""
        times = self._times
        costs = times.costs(ahead=False)
        hop_s = costs.verify_s - costs.plain_s
        waiting_s = hop_s + costs.round_trip_s + JUDGED * costs.token_s
        busy_s = ahead * times.token_s(ahead=True)
        return waiting_s, hop_s + (times.steps.slowdown - 1.0) * busy_s
