"""What is believed of acceptance, until it is seen to have changed."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.outcomes import Outcome
from coordinator.policy.survival import Acceptance


class Belief:
    """Measured chances; what was measured before a change is forgotten."""

    def __init__(self, acceptance: Acceptance, watch: ChangeWatch) -> None:
        self.acceptance = acceptance
        self._watch = watch

    def judged(self, outcomes: Sequence[Outcome], *, stubborn: float = 0.0) -> bool:
        """A round's verdict; whether it shows a change. `stubborn`: see ChangeWatch."""
        changed = self._notice(outcomes, stubborn)
        if not changed:
            self.acceptance.judged(outcomes)
        return changed

    def compared(self, *, matched: bool, stubborn: float = 0.0) -> bool:
        """A token that was not judged and would have been accepted if it matched."""
        changed = self._notice([Outcome(0, matched)], stubborn)
        if not changed:
            self.acceptance.compared(accepted=matched)
        return changed

    def _notice(self, outcomes: Sequence[Outcome], stubborn: float) -> bool:
        change = self._watch.judged(outcomes, hazard=self.acceptance.hazard, stubborn=stubborn)
        if change is None:
            return False
        self.acceptance.begin_anew(tokens=change.tokens, accepted=change.accepted)
        return True
