"""How copied tokens fare, and how many of them pay.

A copied token costs its draft nothing, and is right more often the longer the text has been the
same: so its chance goes by its place in the run of copied tokens, those included that are output by
now. Drawn tokens say nothing of copied ones, nor the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.policy.economics import Costs
from coordinator.policy.outcomes import Outcome
from coordinator.policy.survival import Acceptance, Prior

LAST = 31
"""Places from there on are one."""
OWN_WEIGHT, OWN_MEMORY = 12.0, 60.0
COMMON_WEIGHT, COMMON_MEMORY = 4.0, 300.0
"""Of what is believed before, in tokens, and of what was seen, in rounds."""
OFFERS_WEIGHT, OWN_OFFERS, COMMON_OFFERS = 6.0, 24.0, 300.0
"""The same of offers."""
STATED_WORTH = 0.3
"""Of an offer, in output tokens, where nothing is known."""
LEAST = 2
"""As many are verified whatever is believed of them: so it is found out when they have become
good."""
ROW_PRICE = 0.1
"""What a row is taken to cost at most, in output tokens, where costs are not weighed."""
WORTHLESS = 0.02
"""A token that is accepted more rarely is not worth its message."""


class Rising:
    """A prior that rises with the place: 0.6, 0.7, 0.76, … as measured on answers of the embedded
    target where at least two tokens before the first are the same."""

    overall = 0.7

    def hazard(self, place: int) -> float:
        """That of a place."""
        return 1.0 - 1.2 / (3.0 + place)


class Copies:
    """Measured of one generation, or of all of a kind: then that is the prior of each."""

    def __init__(self, common: Copies | None = None) -> None:
        prior: Prior = Rising() if common is None else common.acceptance
        weight = COMMON_WEIGHT if common is None else OWN_WEIGHT
        memory = COMMON_MEMORY if common is None else OWN_MEMORY
        self.acceptance: Acceptance = Acceptance(prior, weight=weight, memory=memory)
        self._keep = 1.0 - 1.0 / (COMMON_OFFERS if common is None else OWN_OFFERS)
        self.seen = False
        """Some were judged."""
        self._common = common
        self._offers = 0.0
        self._worth = 0.0

    @property
    def worth(self) -> float:
        """Output tokens that come of asking for copies where there are none, on average."""
        usual = STATED_WORTH if self._common is None else self._common.worth
        return (self._worth + OFFERS_WEIGHT * usual) / (self._offers + OFFERS_WEIGHT)

    def expected(self, count: int, *, run: int = 0) -> float:
        """Expected number of accepted ones of `count`, which follow a run of `run`."""
        expected, chance = 0.0, 1.0
        for place in range(run, run + count):
            chance *= self.acceptance.hazard(min(place, LAST))
            expected += chance
        return expected

    def paying(self, costs: Costs, *, rate: float, run: int, reach: float, limit: int) -> int:
        """How many copied tokens are worth their rows, at most `limit`.

        `rate`: what time is worth, in output tokens a second; `run`: of how many they are the
        continuation; `reach`: how likely the first of them is to be judged at all.
        """
        price = max(WORTHLESS, costs.others_price + rate * costs.row_s)
        return self._above(price, run=run, reach=reach, limit=limit)

    def likely(self, *, run: int, limit: int) -> int:
        """How many are worth a row whatever it costs, at most `limit`; `run` as above."""
        return self._above(ROW_PRICE, run=run, reach=1.0, limit=limit)

    def _above(self, price: float, *, run: int, reach: float, limit: int) -> int:
        count, chance = 0, reach
        while count < limit:
            chance *= self.acceptance.hazard(min(run + count, LAST))
            if chance < price:
                break
            count += 1
        return max(count, min(LEAST, limit)) if reach == 1.0 else count

    def judged(self, outcomes: Sequence[Outcome]) -> None:
        """Those of a round, by their places in the run."""
        if outcomes:
            self.seen = True
            self.acceptance.judged([Outcome(min(LAST, at), right) for at, right in outcomes])
        if self._common is not None:
            self._common.judged(outcomes)

    def compared(self, *, matched: bool, run: int | None) -> None:
        """One that was not judged: the target's own choice was this token, or not.

        Where a token is proposed for certain, it is accepted as often as the target chooses it.
        """
        if run is None:
            self.acceptance.compared(accepted=matched)
        else:
            self.acceptance.judged([Outcome(min(LAST, run), matched)])
        if self._common is not None:
            self._common.compared(matched=matched, run=run)

    def offered(self, count: int) -> None:
        """So many came where there were none, when copies alone were asked for."""
        self._offers = self._keep * self._offers + 1.0
        self._worth = self._keep * self._worth + self.expected(count)
        if self._common is not None:
            self._common.offered(count)
