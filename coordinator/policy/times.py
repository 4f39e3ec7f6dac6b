"""What steps, rounds and hops take, as measured of one pair of pools."""

from __future__ import annotations

import math
from collections.abc import Callable

from coordinator.draft_plan import DraftFacts, RoundFacts
from coordinator.policy.economics import Costs
from coordinator.policy.recent import Lowest, Recent, Usual
from coordinator.policy.slope import Slope
from coordinator.policy.step_times import StepTimes

FAST, SLOW = 0.15, 0.05
SHORTEST_S = 1e-6
"""No step is taken to be shorter, whatever is reported of it."""
REMEMBERED, TOKENS = 9, 15
"""Round trips to the draft, and proposals, that the usual times are taken from."""
ASSUMED_DRAFT_ROW = 0.04
ASSUMED_ROW = 0.02
"""What a row adds to a step, as a part of it, while that is not known."""

SOON = 0.25
"""A round that comes within this part of a step still finds the others of its batch."""


class PoolTimes:
    """Seconds, all at the present load; fed by all generations."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.steps = StepTimes(clock)
        self._hop = Recent(FAST)
        self._queue = Recent(FAST)
        self._late_queue = Recent(FAST)
        self._plain_over_model = Lowest()
        """Of a token in a run; lowest, since steps that wait for the rounds of others take longer,
        which is no merit of theirs."""
        self._price = Recent(FAST)
        self._batch = Recent(FAST)
        self._output = Recent(SLOW)
        self._drafted = Recent(FAST)
        self._tokens = {True: Usual(TOKENS), False: Usual(TOKENS)}
        """Of the draft: while the target works too, and while it waits."""
        self._draft_row = Slope(ASSUMED_DRAFT_ROW)
        self._round_trip = Usual(REMEMBERED)

    @property
    def known(self) -> bool:
        """Target and draft have been seen at work."""
        drafted = any(token.known for token in self._tokens.values())
        return self._hop.known and drafted and self._round_trip.known

    @property
    def seen(self) -> bool:
        """The target has been seen at work."""
        return self._batch.known

    @property
    def batch_size(self) -> float:
        """Generations that share a forward of the target."""
        return self._batch.value(1.0)

    @property
    def plain_s(self) -> float:
        """A step of the target decoding alone, in a run, the draft at rest."""
        return max(SHORTEST_S, self._step_s(ahead=False) * self._plain_over_model.value(1.02))

    @property
    def round_trip_s(self) -> float:
        """To the draft and back, drafting apart."""
        return self._round_trip.value(0.0)

    @property
    def draft_row(self) -> float:
        """What one more row adds to a step of the draft, as a part of it."""
        return self._draft_row.relative

    def token_s(self, *, ahead: bool) -> float:
        """The draft's next token, queueing included, while the target works too or waits."""
        if self._tokens[ahead].known:
            return self._tokens[ahead].value(0.0)
        ratio = self.steps.slowdown if ahead else 1.0 / self.steps.slowdown
        return self._tokens[not ahead].value(0.0) * ratio

    def costs(self, *, ahead: bool) -> Costs:
        """What rounds cost now. `ahead`: the draft works while the target does."""
        price, batch = self._price.value(0.0), self.batch_size
        step_s = self._step_s(ahead=ahead)
        token_s = self.token_s(ahead=ahead)
        # A draft that serves others too is in the midst of a step when it is asked.
        shared = 1.0 - 1.0 / batch
        # A round that finds a step under way waits for its end: that is the price of a batch that
        # has fallen apart, and all who are punctual bring it together again.
        queue_s = max(0.0, self._queue.value(0.0) - step_s)
        return Costs(
            verify_s=max(step_s + self._hop.value(0.0) + queue_s, self.plain_s),
            row_s=self._row_s(step_s),
            plain_s=self.plain_s,
            token_s=token_s,
            round_trip_s=self.round_trip_s + shared * token_s / 2,
            late_s=self._late_s(step_s),
            others=batch - 1.0,
            others_price=price * shared,
        )

    def round(self, facts: RoundFacts, *, draft_works: bool) -> None:
        """A round was decided. One that read the prefix again says nothing of others.

        `draft_works`: some draft may have been at work meanwhile.
        """
        if facts.replayed:
            return
        self._batch.add(max(1, facts.batch_size))
        self._output.add(facts.output)
        if math.isfinite(facts.price):
            self._price.add(max(0.0, facts.price))
        self._drafted.add(facts.drafted)
        rows_s = self._row_s(self.steps.seconds(draft_works=draft_works)) * facts.drafted
        if draft_works:
            rows_s += self._others_rows_s(draft_works=True)
        self.steps.add(
            max(SHORTEST_S, facts.model_s - rows_s),
            batch_size=max(1, facts.batch_size),
            draft_works=draft_works,
        )
        if facts.in_run:
            if facts.model_s > 0.0:
                self._plain_over_model.add(facts.verify_s / facts.model_s)
            return
        self._hop.add(max(0.0, facts.verify_s - facts.model_s - facts.queue_s))
        late = facts.wait_s > SOON * facts.model_s
        (self._late_queue if late else self._queue).add(facts.queue_s)

    def drafted(self, facts: DraftFacts, *, ahead: bool) -> None:
        """A proposal came. `ahead`: the target may have been at work meanwhile."""
        if facts.steps:
            self._tokens[ahead].add((facts.model_s + facts.queue_s) / facts.steps)
            self._draft_row.add(
                amount=facts.tokens / facts.steps, value=facts.model_s / facts.steps
            )
        if facts.round_trip_s is not None:
            self._round_trip.add(max(0.0, facts.round_trip_s))

    def _row_s(self, step_s: float) -> float:
        """What a draft token adds to a verification."""
        price = self._price.value(0.0)
        if price <= 0.0:
            return ASSUMED_ROW * step_s
        return price * step_s / (self.batch_size * max(1.0, self._output.value(1.0)))

    def _others_rows_s(self, *, draft_works: bool) -> float:
        """What the draft tokens of the others add to a step."""
        row_s = self._row_s(self.steps.seconds(draft_works=draft_works))
        return row_s * (self.batch_size - 1.0) * self._drafted.value(0.0)

    def _step_s(self, *, ahead: bool) -> float:
        """A step of this load without own draft tokens."""
        return self.steps.seconds(draft_works=ahead) + self._others_rows_s(draft_works=ahead)

    def _late_s(self, step_s: float) -> float:
        """A round that misses the step of its batch waits for the next one. Measured only where it
        is more: once a batch has fallen apart, nobody is late."""
        apart = (1.0 - 1.0 / self.batch_size) * step_s
        return max(apart, self._late_queue.value(0.0) - self._queue.value(0.0))
