"""How often the target, choosing alone, takes the draft's token; what that says of acceptance."""

from __future__ import annotations

from coordinator.policy.change_watch import ChangeWatch
from coordinator.policy.outcomes import Outcome

DRAWN, DRAWN_RISE = 0.65, 4.0
"""Matches for each token that would be accepted, where the target's choice is a draw of its own;
and the logarithm of the likelihood ratio that is a sign, dear to look into."""
SAME, SAME_RISE = 1.0, 1.5
"""Where a match means what an acceptance means; there a sign is cheap to look into."""
TRUST, MEMORY = 6.0, 100.0
"""Accepted tokens' worth of trust in the stated ratio; tokens that are remembered."""
MOST = 0.99
TOKENS, ROUNDS = 2, 8
IN_VAIN, MOST_IN_VAIN = 1.5, 4
"""What each sign that came to nothing adds to what the next one needs, and how many count."""


class Foresight:
    """Matches and acceptance go together: their ratio is learnt while draft tokens are judged.

    While none are, more matches than that ratio lets expect are a sign that acceptance is higher
    than it is believed to be.
    """

    def __init__(self, *, stated: float, rise: float) -> None:
        """`stated`: the ratio to begin with. `rise`: the logarithm that is taken for a sign."""
        self._stated = stated
        self._matched = self._accepted = 0.0
        self._watch = ChangeWatch(drop=float("inf"), rise=rise, tokens=TOKENS, rounds=ROUNDS)
        self._in_vain = 0

    def match(self, acceptance: float) -> float:
        """Chance of a match where tokens are accepted that often."""
        ratio = (self._matched + TRUST * self._stated) / (self._accepted + TRUST)
        return min(MOST, ratio * acceptance)

    def learn(self, *, matched: bool, acceptance: float) -> None:
        """A token was compared while acceptance is known."""
        keep = 1.0 - 1.0 / MEMORY
        self._matched = keep * self._matched + matched
        self._accepted = keep * self._accepted + acceptance

    def sign(self, *, matched: bool, acceptance: float) -> bool:
        """A token was compared while none are judged; whether it is a reason to look closer."""
        chance = self.match(acceptance)
        found = self._watch.judged(
            [Outcome(0, matched)],
            hazard=lambda _: chance,
            stubborn=IN_VAIN * min(MOST_IN_VAIN, self._in_vain),
        )
        self._in_vain += found is not None
        return found is not None

    def came_true(self) -> None:
        """Draft tokens pay again: the next sign is believed as easily as the first."""
        self._in_vain = 0
