"""The decode loop of one generation, as the coordinator runs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from coordinator.draft_plan import (
    LONGEST_RUN,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
)
from outrider.testing.simulated.chain import Chain
from outrider.testing.simulated.clock import Process, Signal, VirtualClock, Wait
from outrider.testing.simulated.draft import Delivery, SimulatedDraft
from outrider.testing.simulated.policies import Policy
from outrider.testing.simulated.target import Answer, Job, SimulatedTarget

SMOOTHING = 0.2


@dataclass(slots=True)
class Tally:
    """What a generation did."""

    tokens: int = 0
    rounds: int = 0
    drafted_rounds: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    ready_rounds: int = 0
    guess_rounds: int = 0
    wait_s: float = 0.0
    plain_tokens: int = 0


class SimulatedGeneration:
    """Decodes `length` tokens."""

    def __init__(
        self,
        clock: VirtualClock,
        target: SimulatedTarget,
        draft: SimulatedDraft,
        policy: Policy,
        *,
        stream: int,
        length: int,
        acceptance: Callable[[int], float],
        chance: Random,
        match: float = 1.0,
    ) -> None:
        self.tally = Tally()
        self.decided: list[tuple[float, int]] = []
        """When how many tokens were there."""
        self.plans: list[DraftPlan] = []
        self._clock, self._target, self._draft, self._policy = clock, target, draft, policy
        self._stream, self._length = stream, length
        self._acceptance, self._chance, self._match = acceptance, chance, match
        self._committed = 0
        self._plan = DraftPlan(0)
        self._stands = False
        self._tree: Chain | None = None
        self._work = draft.open(self._deliver, self._new_chain)
        self._arrival = Signal()
        self._round_trip_s = self._token_s = 0.0
        self._expected = math.inf
        self._asked_until = 0
        self._on_guess = False
        self.ended = Signal()

    @property
    def depth(self) -> int:
        """Drawn tokens that wait below the root."""
        if self._tree is None:
            return 0
        return max(0, self._tree.base + self._tree.arrived - self._committed)

    def run(self) -> Process:
        """The whole generation."""
        self._choose()
        if self._plan.draft_length or self._plan.ahead:
            self._commit(self._plan)
        yield from self._round(0, 0.0)
        while self._committed < self._length:
            plan = self._plan
            if plan.draft_length:
                yield from self._speculate(plan)
            else:
                yield from self._round(0, 0.0)
        self._draft.close(self._work)
        self._target.forget(self._stream)
        self.ended.fire()

    def _new_chain(self, base: int) -> Chain:
        return Chain(base, self._acceptance, self._chance, match=self._match)

    def _choose(self) -> None:
        room = self._length - self._committed - 1
        plan = self._policy.plan(
            offset=self._committed, room=max(0, room), draft_ready=True, ready=self.depth
        )
        self._plan = plan
        self.plans.append(plan)

    def _go_on(self, *, in_run: bool) -> None:
        """Once draft tokens are wanted that stands until the run is over; the draft follows."""
        if not self._stands:
            self._choose()
            self._stands = in_run and self._plan.draft_length > 0
        plan = self._plan
        if plan.ahead or (plan.draft_length and not in_run):
            self._commit(plan)

    def _commit(self, plan: DraftPlan) -> None:
        if self._length - self._committed <= 1:
            return
        now = self._clock.now
        together = plan.together or plan.draft_length
        missing = max(1, together - self.depth)
        if self._tree is None or math.isinf(self._expected):
            self._expected = now + self._round_trip_s + missing * self._token_s
        self._asked_until = self._committed + plan.draft_length + plan.ahead
        self._draft.commit(self._work, self._committed, plan)

    def _speculate(self, plan: DraftPlan) -> Process:
        began, self._stands = self._clock.now, False
        while self.depth < plan.draft_length:
            patience = self._policy.patience_s(
                tokens=self.depth, next_in_s=max(0.0, self._expected - self._clock.now)
            )
            if patience <= 0:
                break
            before = self._clock.now, self.depth
            yield Wait(patience, self._arrival)
            if self._clock.now - before[0] >= patience - 1e-12 and self.depth == before[1]:
                break
        yield from self._round(min(self.depth, plan.draft_length), self._clock.now - began)

    def _round(self, drafted: int, wait_s: float) -> Process:
        """One round, or a run until the policy wants something else."""
        answers: list[tuple[Answer, int]] = []
        came = Signal()
        chain, at = self._tree, self._committed
        want_bonus = self._match == 1.0 or self.depth <= drafted or drafted == 0
        judged = 0

        def judge() -> int:
            nonlocal judged
            judged += 1
            accepted = 0
            if judged == 1:
                while accepted < drafted and chain is not None and chain.accepted(at + accepted):
                    accepted += 1
            outputs.append(accepted)
            return accepted + (want_bonus or accepted < drafted)

        def answer(given: Answer) -> None:
            answers.append((given, outputs[len(answers) + taken]))
            came.fire()

        outputs: list[int] = []
        taken = 0
        first, since, in_run = self._committed == 0, self._clock.now, False
        granted = 0 if self._plan.draft_length else self._credit(self._plan)
        job = Job(self._stream, drafted + 1, granted, judge, answer)
        until = self._committed + 1 + granted
        self._target.send(job)
        while True:
            while not answers:
                yield Wait(signal=came)
            given, accepted = answers.pop(0)
            taken += 1
            guess, ready = self._on_guess, wait_s == 0.0
            more = in_run or want_bonus or accepted < drafted
            self._advance(0 if in_run else drafted, accepted, more=more)
            facts = RoundFacts(
                drafted=0 if in_run else drafted,
                accepted=accepted,
                output=accepted + more,
                verify_s=self._clock.now - since,
                model_s=given.model_s,
                queue_s=given.queue_s,
                wait_s=0.0 if in_run else wait_s,
                batch_size=given.batch_size,
                price=given.price,
                in_run=in_run,
                ready=ready and not in_run and drafted > 0,
                guess=guess and not in_run and drafted > 0,
            )
            self._count(facts)
            since, in_run = self._clock.now, True
            over = until <= self._committed
            if over or until - self._committed <= granted // 2:
                self._go_on(in_run=not over)
                if not over and not self._plan.draft_length:
                    granted = self._credit(self._plan)
                    longer = self._committed + 1 + granted
                    if longer > until:
                        job.further += longer - until
                        until = longer
            if not first:
                self._policy.round(facts)
            first = False
            if over:
                return

    def _credit(self, plan: DraftPlan) -> int:
        return max(0, min(plan.run, LONGEST_RUN, self._length - self._committed - 1))

    def _count(self, facts: RoundFacts) -> None:
        tally = self.tally
        tally.rounds += 1
        tally.tokens += facts.output
        tally.plain_tokens += facts.drafted == 0
        tally.drafted_rounds += facts.drafted > 0
        tally.draft_tokens += facts.drafted
        tally.accepted += facts.accepted
        tally.ready_rounds += facts.ready
        tally.guess_rounds += facts.guess
        tally.wait_s += facts.wait_s
        self.decided.append((self._clock.now, self._committed))

    def _advance(self, judged: int, accepted: int, *, more: bool) -> None:
        """Commits the accepted tokens and, if there is one more, the target's own."""
        place = self._committed + accepted
        chain = self._tree
        if not more:
            self._committed = place
            return
        self._committed = place + 1
        if chain is None or place >= chain.base + chain.arrived:
            return
        if accepted == judged:
            self._policy.foresaw(ForesightFacts(matched=chain.right(place)))
        if chain.right(place):
            self._on_guess = False
            return
        branch = chain.correction(place)
        self._tree = branch
        self._on_guess = branch is not None
        self._expected = math.inf
        if branch is not None:
            self._expected = self._clock.now

    def _deliver(self, delivery: Delivery) -> None:
        self._policy.drafted(delivery.facts)
        facts = delivery.facts
        spent = facts.model_s / max(1, facts.steps)
        self._token_s += (SMOOTHING if self._token_s else 1.0) * (spent - self._token_s)
        if facts.round_trip_s is not None:
            step = SMOOTHING if self._round_trip_s else 1.0
            self._round_trip_s += step * (facts.round_trip_s - self._round_trip_s)
        chain, drawn = delivery.chains[0]
        for branch, grown in delivery.chains[1:]:
            branch.arrived = max(branch.arrived, grown)
            if branch is self._tree:
                self._expected = self._clock.now + self._token_s
                self._arrival.fire()
        chain_is_new = chain is not self._tree
        passed = chain.base + chain.arrived
        chain.arrived = max(chain.arrived, drawn)
        for place in range(passed, min(self._committed, chain.base + drawn)):
            if place >= self._length:
                break
            right = chain.right(place)
            if place not in chain.skipped:
                self._policy.foresaw(ForesightFacts(matched=right))
            if not right:
                if not chain_is_new:
                    self._tree = None
                return
        for place in range(chain.base, min(self._committed, chain.base + drawn)):
            if not chain.right(place):
                return
        self._tree = chain
        more = chain.base + drawn < self._asked_until
        self._expected = self._clock.now + self._token_s if more else math.inf
        self._arrival.fire()
