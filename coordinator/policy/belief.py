"""What is believed of acceptance, until it is seen to have changed."""

from __future__ import annotations

from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.survival import Acceptance


class Belief:
    """Measured chances; what was measured before a change is forgotten."""

    def __init__(self, acceptance: Acceptance, watch: ChangeWatch) -> None:
        self.acceptance = acceptance
        self._watch = watch

    def judged(self, *, drafted: int, accepted: int, stubborn: float = 0.0) -> bool:
        """A round's verdict; whether it shows a change. `stubborn`: see ChangeWatch."""
        changed = self._notice(drafted, accepted, stubborn)
        if not changed:
            self.acceptance.judged(drafted=drafted, accepted=accepted)
        return changed

    def compared(self, *, matched: bool, stubborn: float = 0.0) -> bool:
        """A token that was not judged and would have been accepted if it matched."""
        changed = self._notice(1, int(matched), stubborn)
        if not changed:
            self.acceptance.compared(accepted=matched)
        return changed

    def _notice(self, drafted: int, accepted: int, stubborn: float) -> bool:
        change = self._watch.judged(
            drafted=drafted,
            accepted=accepted,
            hazard=self.acceptance.hazard,
            stubborn=stubborn,
        )
        if change is None:
            return False
        self.acceptance.begin_anew(tokens=change.tokens, accepted=change.accepted)
        return True
