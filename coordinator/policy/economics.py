"""What rounds earn in the long run: how many tokens to draft, and whether to wait for them.

A generation is either *ready*, drafted tokens lie below its committed prefix, or it has *missed*:
the target went another way and the draft begins anew. With survival s_i, the probability that the
first i draft tokens are all accepted, a round of k draft tokens gives E(k) = 1 + s_1 + … + s_k
output tokens and takes T(k) = T(0) + b·k. A ready round stays ready with probability C(k): all
were accepted and the next token was foreseen, or a side branch holds the correction.

After a miss there are two ways. Wait for j tokens: that takes R + j·d. Or decode n tokens alone
meanwhile: if all n are what the draft goes on with, which they are with probability m each, its
tokens are still valid when they come; if one is not, all begins again. n successes in a row take
(m^-n - 1) / (1 - m) tries. From one miss to the next, a renewal, the rate is output ÷ time; the
best (n, j, k) is what maximises it. Each draft token also costs the other generations of its
batch what the target says, in output tokens, and that is taken off the output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

MOST_PLAIN = 8
"""Plain steps in a row that are considered after a miss."""
PASSES = 2
FIRSTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
BETTER = 1.05
"""What is changed must be so much better afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What things take at the present load, in seconds.

    `verify_s`: a round without draft tokens, hop and queue included; each draft token adds
    `row_s`. `plain_s`: a step of the target decoding alone, in a run. `token_s`: the draft's next
    token. `round_trip_s`: to the draft and back. `late_s`: what a round loses beside its wait when
    the others of its batch go without it; there are `others` of them, and `others_price` is what
    a row costs them, in output tokens.
    """

    verify_s: float
    row_s: float
    plain_s: float
    token_s: float
    round_trip_s: float
    late_s: float = 0.0
    others: float = 0.0
    others_price: float = 0.0

    def delay_s(self, wait_s: float) -> float:
        """By how much a wait puts off verdicts: the others of the batch wait as well, or go
        without this round, which then waits for the next step."""
        return wait_s + min(self.late_s, self.others * wait_s)

    def round_s(self, draft_length: int) -> float:
        """A round with that many draft tokens, which are there."""
        return self.verify_s + self.row_s * draft_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """What happens how often.

    `survival[i]`: the first i + 1 draft tokens are all accepted. `match`: a token that the target
    chose by itself is the one that the draft drew for its place. `hit`: after a miss, a side
    branch holds what the target chose. `bonus_free`: a bonus is always taken, and is foreseen as
    often as one more token would be accepted.
    """

    survival: Sequence[float]
    match: float
    hit: float = 0.0
    bonus_free: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to speculate.

    `length`: draft tokens of a ready round; `first`: those waited for after a miss; `plain`:
    tokens decoded alone meanwhile. `rate`: output tokens in a second, less what others lose.
    `lead`: what being ready is worth over having missed, in output tokens.
    """

    length: int
    first: int
    plain: int
    rate: float
    lead: float


class Economics:
    """Weighs the ways to speculate against each other."""

    def __init__(self, costs: Costs, chances: Chances, *, ahead: bool) -> None:
        """`ahead`: the draft goes on while the target verifies."""
        self._costs = costs
        self._ahead = ahead
        self._longest = len(chances.survival)
        survival = [1.0, *chances.survival]
        rows = range(self._longest + 1)
        sums = list(accumulate(survival))
        self._time = [costs.round_s(k) for k in rows]
        self._gain = [sums[k] - costs.others_price * k for k in rows]
        self._stay = [0.0 for _ in rows]
        self._match = min(0.999, max(1e-6, chances.match))
        full = [_either(survival[k] * self._match, chances.hit) for k in rows]
        self._stay = full if ahead else [0.0 for _ in rows]
        self._ready_gain, self._ready_stay = self._gain, self._stay
        if ahead and not chances.bonus_free:
            # What follows the last token is there already and is judged in the next round.
            self._ready_gain = [gain - survival[k] for k, gain in enumerate(self._gain)]
            self._ready_stay = [_either(survival[k], chances.hit) for k in rows]

    def best(self, lengths: Sequence[int], *, kept: Choice | None = None) -> Choice:
        """The best choice among those draft lengths of a ready round, each 1 and up.

        `kept`: the choice so far; it stays unless another is clearly better.
        """
        most = 0
        if self._ahead:
            wait_s = self._costs.round_trip_s + self._costs.token_s
            most = min(MOST_PLAIN, math.ceil(wait_s / self._costs.verify_s))
        found = (self._best_for(plain, lengths) for plain in range(most + 1))
        rate, plain, first, length = max(found)
        if kept is not None and kept.length in lengths and kept.first <= max(lengths):
            kept_rate = self._rate(kept.plain, kept.first, kept.length)
            if rate < BETTER * kept_rate:
                rate, plain, first, length = kept_rate, kept.plain, kept.first, kept.length
        return self._choice(rate, plain, first, length)

    def rated(self, choice: Choice) -> Choice:
        """That choice with what it earns here."""
        rate = self._rate(choice.plain, choice.first, choice.length)
        return self._choice(rate, choice.plain, choice.first, choice.length)

    def _best_for(self, plain: int, lengths: Sequence[int]) -> tuple[float, int, int, int]:
        length = lengths[0]
        best = (-math.inf, plain, 1, length)
        for _ in range(PASSES if self._ahead else 1):
            for first in self._firsts(lengths):
                best = max(best, (self._rate(plain, first, best[3]), plain, first, best[3]))
            if not self._ahead:
                break
            for length in lengths:
                best = max(best, (self._rate(plain, best[2], length), plain, best[2], length))
        return best

    def _firsts(self, lengths: Sequence[int]) -> Sequence[int]:
        """With drafts that go on a round may begin with fewer tokens than it may have."""
        longest = max(lengths)
        return [one for one in FIRSTS if one < longest] + [longest] if self._ahead else lengths

    def _rate(self, plain: int, first: int, length: int) -> float:
        """Output of one renewal ÷ its time."""
        costs = self._costs
        alone = (self._match**-plain - 1.0) / (1.0 - self._match)
        wait_s = costs.round_trip_s + (plain + first) * costs.token_s - plain * costs.verify_s
        more = self._stay[first] / (1.0 - self._ready_stay[length])
        output = alone + self._gain[first] + more * self._ready_gain[length]
        seconds = (
            alone * costs.verify_s
            + costs.delay_s(max(0.0, wait_s))
            + self._time[first]
            + more * self._ready_s(length)
        )
        return output / seconds

    def _ready_s(self, length: int) -> float:
        """A ready round: when the draft is slower than the target, its tokens are waited for."""
        return max(self._time[length], (length + 1) * self._costs.token_s)

    def _choice(self, rate: float, plain: int, first: int, length: int) -> Choice:
        left = self._ready_gain[length] - rate * self._ready_s(length)
        lead = max(0.0, left / (1.0 - self._ready_stay[length])) if self._ahead else 0.0
        return Choice(length if self._ahead else first, first, plain, rate, lead)


def _either(one: float, other: float) -> float:
    """One of two things happens; never certain, so that every renewal ends."""
    return min(0.99, one + (1.0 - one) * other)
