"""What all generations of a pool measured together: the priors of new ones."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.policy.audit import Audit
from coordinator.policy.belief import Belief
from coordinator.policy.branching import HitRate
from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.copies import Copies
from coordinator.policy.foresight import DRAWN, DRAWN_RISE, SAME, SAME_RISE, Foresight
from coordinator.policy.probing import Probing
from coordinator.policy.quiet import Quiet
from coordinator.policy.standing import Standing
from coordinator.policy.survival import Acceptance, Assumed
from coordinator.policy.times import PoolTimes

WEIGHT, MEMORY = 4.0, 300.0
DROP, RISE, TOKENS, ROUNDS = 9.0, 9.0, 4, 48


class KindMeasures:
    """What was measured of generations with the same kind of verification."""

    def __init__(self, clock: Callable[[], float], foresight: Foresight) -> None:
        self.belief = Belief(
            Acceptance(Assumed(), weight=WEIGHT, memory=MEMORY),
            ChangeWatch(drop=DROP, rise=RISE, tokens=TOKENS, rounds=ROUNDS),
        )
        self.copies = Copies()
        self.foresight = foresight
        self.audit = Audit(clock)
        self.hits = HitRate()
        self.standing = Standing(clock, on=True)
        """Whether a new generation begins with draft tokens."""
        self.looked_at = clock()
        self.promised = 0.0
        """Output tokens expected with draft tokens in the time of one token alone, not audited."""
        self.draft_length = 0
        self.reason = "START"


class PoolMeasures:
    """Times, and what is known of each kind of verification."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times = PoolTimes(clock)
        self.probing = Probing(clock)
        """Of drafting beside a run."""
        self.judging = Probing(clock)
        """Of tokens that are waited for and judged."""
        self.quiet = Quiet(clock)
        self._draft_worked_at = float("-inf")
        self._kinds = {
            True: KindMeasures(clock, Foresight(stated=SAME, rise=SAME_RISE)),
            False: KindMeasures(clock, Foresight(stated=DRAWN, rise=DRAWN_RISE)),
        }
        self.latest = self._kinds[True]
        """Of the kind that was asked for last."""

    @property
    def switches(self) -> int:
        """How often speculation was turned off or on for new generations."""
        return sum(kind.standing.changes for kind in self._kinds.values())

    def draft_works(self) -> None:
        """Some draft is at work now, or has been up to now."""
        self._draft_worked_at = self.clock()

    def draft_rested(self, seconds: float) -> bool:
        """No draft has worked for so long; those who work tell so at each round."""
        return self.clock() - self._draft_worked_at > seconds

    def look_again(self) -> None:
        """Something has changed: what was given up may pay by now."""
        self.probing.hurry()
        self.judging.hurry()

    def of(self, *, bonus_free: bool) -> KindMeasures:
        """Those of one kind."""
        self.latest = self._kinds[bonus_free]
        return self.latest
