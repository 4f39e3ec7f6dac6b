"""What is done while speculation is off: the target decodes alone, the draft is tried at times."""

from __future__ import annotations

import math

from coordinator.draft_plan import LONGEST_RUN, DraftPlan, SpeculationTerms
from coordinator.policy.measures import PoolMeasures

SHORTEST_RUN = 8
SHORT_RUN = 2
TRIED = 8
"""Tokens that are compared in a probe, beyond those that come too late."""
JUDGED = 4
"""Draft tokens that are judged in a probe."""


class Alone:
    """Plans for one generation; all generations of the pool share the times of probes.

    Drafting beside the target's run costs next to nothing, unless it slows that down. A token that
    comes out the same would have been accepted; where bonuses are not free, that says too little,
    and tokens that are waited for are judged, rarely or when more come out the same than before.
    """

    def __init__(self, terms: SpeculationTerms, measures: PoolMeasures) -> None:
        self._terms = terms
        self._probing = measures.probing
        self._judging = measures.judging
        self._times = measures.times
        self.waits = False
        """The round that was planned last is to wait for its draft tokens."""

    def begin(self) -> DraftPlan:
        """The first round of a generation, which never has draft tokens: a probe would be lost."""
        return DraftPlan(0, run=SHORTEST_RUN)

    def plan(self, *, room: int) -> DraftPlan:
        """The next round."""
        if self.waits:
            # The verdict is heard of after this; a short run, and it is known whether to go on.
            self.waits = False
            return DraftPlan(0, run=SHORT_RUN)
        times = self._times
        plain_s = times.plain_s
        late = math.ceil(times.round_trip_s / max(1e-3, plain_s))
        ahead = min(room, late + TRIED)
        waiting_s, beside_s = self._prices(ahead)
        judges = waiting_s < beside_s or not self._terms.bonus_free
        if judges and self._judging.due_in_s <= 0.0:
            self.waits = True
            self._judging.begin(cost_s=waiting_s)
            return DraftPlan(min(room, JUDGED))
        if self._probing.due_in_s <= 0.0:
            self._probing.begin(cost_s=beside_s)
            return DraftPlan(0, ahead=ahead, run=late + TRIED // 2)
        due_in_s = self._probing.due_in_s
        if judges:
            due_in_s = min(due_in_s, self._judging.due_in_s)
        steps = int(due_in_s / max(1e-3, plain_s))
        return DraftPlan(0, run=max(SHORTEST_RUN, min(LONGEST_RUN, steps)))

    def _prices(self, ahead: int) -> tuple[float, float]:
        """Seconds that a probe costs: by waiting for its tokens, or by drafting beside the run."""
        times = self._times
        costs = times.costs(ahead=False)
        hop_s = costs.verify_s - costs.plain_s
        waiting_s = hop_s + costs.round_trip_s + JUDGED * costs.token_s
        busy_s = ahead * times.token_s(ahead=True)
        return waiting_s, hop_s + (times.steps.slowdown - 1.0) * busy_s
