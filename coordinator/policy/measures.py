"""What all generations of a pool measured together: the priors of new ones."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.policy.audit import Audit
from coordinator.policy.branching import HitRate
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.probing import Probing
from coordinator.policy.survival import Acceptance, Assumed
from coordinator.policy.times import PoolTimes

STATED_MATCH = 0.4
"""How often a token that the target chose by itself is assumed to be the draft's, where bonuses
are not free."""
MATCH_MEMORY = 60.0
POOL_WEIGHT, POOL_MEMORY = 4.0, 300.0
POOL_THRESHOLD, POOL_TOKENS, POOL_ROUNDS = 6.0, 6, 24


class KindMeasures:
    """What was measured of generations with the same kind of verification."""

    def __init__(self) -> None:
        self.acceptance = Acceptance(Assumed(), weight=POOL_WEIGHT, memory=POOL_MEMORY)
        self.watch = ChangeWatch(threshold=POOL_THRESHOLD, tokens=POOL_TOKENS, rounds=POOL_ROUNDS)
        self.match = Acceptance(Assumed(STATED_MATCH), weight=POOL_WEIGHT, memory=MATCH_MEMORY)
        self.audit = Audit()
        self.hits = HitRate()
        self.on = True
        """Whether a new generation begins with draft tokens."""
        self.draft_length = 0
        self.reason = "START"


class PoolMeasures:
    """Times, acceptance and standing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times = PoolTimes()
        self.probing = Probing(clock)
        self.switches = 0
        self._kinds = {True: KindMeasures(), False: KindMeasures()}
        self.latest = self._kinds[True]

    def of(self, *, bonus_free: bool) -> KindMeasures:
        """Those of one kind."""
        self.latest = self._kinds[bonus_free]
        return self.latest
