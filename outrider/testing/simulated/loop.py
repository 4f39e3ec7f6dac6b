"""The decode loop of one generation, as the coordinator runs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from coordinator.draft_plan import (
    LONGEST_RUN,
    Copying,
    DraftPlan,
    ForesightFacts,
    RoundFacts,
    Situation,
)
from coordinator.drafting import limited
from outrider.testing.simulated.chain import Chain
from outrider.testing.simulated.clock import Process, Signal, VirtualClock, Wait
from outrider.testing.simulated.draft import Delivery, SimulatedDraft
from outrider.testing.simulated.pace import Pace
from outrider.testing.simulated.policies import Policy
from outrider.testing.simulated.tally import Tally
from outrider.testing.simulated.target import Answer, Job, SimulatedTarget

MOST_DRAFTED = 16
"""Draft tokens that the target takes in a round."""


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
        copies: Callable[[int], float | None] | None = None,
    ) -> None:
        """`copies` as in Chain; None: the draft does not copy."""
        self.tally = Tally()
        self.decided: list[tuple[float, int]] = []
        """When how many tokens were there."""
        self.plans: list[DraftPlan] = []
        self._clock, self._target, self._draft, self._policy = clock, target, draft, policy
        self._stream, self._length = stream, length
        self._acceptance, self._chance, self._match = acceptance, chance, match
        self._copies = copies
        self._run = 0
        self._committed = 0
        self._plan = DraftPlan(0)
        self._stands = False
        self._tree: Chain | None = None
        self._work = draft.open(self._deliver, self._new_chain)
        self._arrival = Signal()
        self._pace = Pace()
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
        if self._plan.draft_length or self._plan.ahead or self._plan.copies:
            self._commit(self._plan)
        yield from self._round(0, 0.0)
        while self._committed < self._length:
            plan = self._plan
            if plan.draft_length or plan.copies:
                yield from self._speculate(plan)
            else:
                yield from self._round(0, 0.0)
        self._draft.close(self._work)
        self._target.forget(self._stream)
        self.ended.fire()

    def _new_chain(self, base: int) -> Chain:
        copies = self._copies or (lambda place: None)
        return Chain(base, self._acceptance, self._chance, match=self._match, copies=copies)

    def _copied(self, place: int) -> bool:
        """A copied token lies ready for that place."""
        tree = self._tree
        return tree is not None and place < self._committed + self.depth and tree.copied(place)

    def _choose(self) -> None:
        room = self._length - self._committed - 1
        copying = None
        if self._copies is not None:
            end = self._committed
            while self._copied(end):
                end += 1
            copying = Copying(self._draft.draws, ready=end - self._committed, run=self._run)
        situation = Situation(
            offset=self._committed,
            room=max(0, room),
            draft_ready=True,
            ready=self.depth,
            copying=copying,
        )
        self._plan = plan = limited(self._policy.plan(situation), room)
        self.plans.append(plan)

    def _go_on(self, *, in_run: bool) -> None:
        """Once draft tokens are wanted that stands until the run is over; the draft follows."""
        if not self._stands:
            self._choose()
            self._stands = in_run and self._plan.draft_length > 0
        plan = self._plan
        looks_up = plan.copies and not plan.draft_length
        if plan.ahead or looks_up or (plan.draft_length and not in_run):
            self._commit(plan)

    def _commit(self, plan: DraftPlan) -> None:
        if self._length - self._committed <= 1:
            return
        now = self._clock.now
        together = plan.together or plan.draft_length
        missing = max(1, together - self.depth) if plan.draft_length else 0
        if self._tree is None or math.isinf(self._expected):
            self._expected = self._pace.due(now, missing=missing)
        self._asked_until = self._committed + plan.draft_length + plan.ahead
        self._draft.commit(self._work, self._committed, plan)

    def _speculate(self, plan: DraftPlan) -> Process:
        began, self._stands = self._clock.now, False
        wanted = plan.draft_length or plan.together
        while self.depth < wanted and self._expected < math.inf:
            patience = self._policy.patience_s(
                tokens=self.depth, next_in_s=max(0.0, self._expected - self._clock.now)
            )
            if patience <= 0:
                break
            before = self._clock.now, self.depth
            yield Wait(patience, self._arrival)
            if self._clock.now - before[0] >= patience - 1e-12 and self.depth == before[1]:
                break
        yield from self._round(self._verified(plan), self._clock.now - began)

    def _verified(self, plan: DraftPlan) -> int:
        """As the coordinator has it: copied tokens follow where they pay."""
        length = min(self.depth, plan.draft_length)
        places = range(self._committed, self._committed + length)
        run = self._run
        for place in places:
            run = run + 1 if self._copied(place) else 0
        drawn = sum(not self._copied(place) for place in places)
        most = self._policy.copies(drawn=drawn, run=run) if plan.copies else 0
        longest = min(length + most, MOST_DRAFTED)
        while length < longest and self._copied(self._committed + length):
            length += 1
        return length

    def _round(self, drafted: int, wait_s: float) -> Process:
        """One round, or a run until the policy wants something else."""
        answers: list[tuple[Answer, int]] = []
        came = Signal()
        chain, at = self._tree, self._committed
        covered = self.depth > drafted > 0 and not self._copied(at + drafted)
        want_bonus = self._match == 1.0 or not covered
        copied = [self._copied(place) for place in range(at, at + drafted)]
        run, alone = self._run, not self._plan.draft_length and self._plan.copies > 0
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
        speculates = self._plan.draft_length or drafted
        granted = 0 if speculates else self._credit(self._plan)
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
                copied=[] if in_run else copied,
                run=run,
                copies_alone=alone and not in_run,
            )
            self.tally.count(facts)
            self.decided.append((self._clock.now, self._committed))
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

    def _advance(self, judged: int, accepted: int, *, more: bool) -> None:
        """Commits the accepted tokens and, if there is one more, the target's own."""
        place = self._committed + accepted
        chain = self._tree
        for at in range(self._committed, place):
            self._run = self._run + 1 if self._copied(at) else 0
        if not more:
            self._committed = place
            return
        copied, run, self._run = self._copied(place), self._run, 0
        self._committed = place + 1
        if chain is None or place >= chain.base + chain.arrived:
            return
        if accepted == judged:
            self._policy.foresaw(ForesightFacts(chain.right(place), copied, run))
        if copied and chain.right(place):
            self._run = run + 1
        if chain.right(place):
            self._on_guess = False
            return
        branch = chain.correction(place)
        self._tree = branch
        self._on_guess = branch is not None
        self._expected = math.inf if branch is None else self._clock.now

    def _deliver(self, delivery: Delivery) -> None:
        self._policy.drafted(delivery.facts)
        self._pace.drafted(delivery.facts)
        chain, drawn = delivery.chains[0]
        for branch, grown in delivery.chains[1:]:
            branch.arrived = max(branch.arrived, grown)
            if branch is self._tree:
                self._expected = self._clock.now + self._pace.token_s
                self._arrival.fire()
        passed = chain.base + chain.arrived
        chain.arrived = max(chain.arrived, drawn)
        for place in range(passed, min(self._committed, chain.base + drawn)):
            if place >= self._length:
                break
            right = chain.right(place)
            if place not in chain.skipped:
                self._policy.foresaw(ForesightFacts(matched=right, copied=chain.copied(place)))
            if not right:
                if chain is self._tree:
                    self._tree = None
                return
        for place in range(chain.base, min(self._committed, chain.base + drawn)):
            if not chain.right(place):
                return
        self._tree = chain
        more = chain.base + drawn < self._asked_until
        self._expected = self._clock.now + self._pace.token_s if more else math.inf
        self._arrival.fire()
