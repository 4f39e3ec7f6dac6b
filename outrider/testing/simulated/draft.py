"""A draft that goes on by itself, for all generations in shared steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.draft_plan import DraftFacts, DraftPlan
from draft_service.alternatives import Alternative
from draft_service.branch_choice import Place, likeliest
from outrider.testing.simulated.chain import HITS, Chain
from outrider.testing.simulated.clock import Process, Signal, VirtualClock, Wait
from outrider.testing.simulated.machine import Machine

ALTERNATIVES = tuple(Alternative(rank, share) for rank, share in enumerate(HITS))


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one message brings: chains with the tokens of each, the main one first."""

    chains: list[tuple[Chain, int]]
    facts: DraftFacts


@dataclass(slots=True)
class Work:
    """What the draft does for one generation."""

    deliver: Callable[[Delivery], None]
    new_chain: Callable[[int], Chain]
    chain: Chain | None = None
    committed: int = 0
    together_until: int = 0
    until: int = 0
    copy_until: int = 0
    offers: bool = False
    draws: bool = True
    branches: int = 0
    branch_length: int = 0
    acceptance: float = 0.0
    growing: list[Chain] = field(default_factory=list)
    tokens: int = 0
    steps: int = 0
    model_s: float = 0.0
    queue_s: float = 0.0
    since: float = 0.0
    asked: float | None = None

    @property
    def at(self) -> int:
        """The place of the next token."""
        return self.chain.base + self.chain.drawn if self.chain else self.committed

    @property
    def rows(self) -> int:
        """Rows of its next step."""
        return (self.draws and self.at < self.until) + len(self.growing)


@dataclass
class SimulatedDraft:
    """Drafts for many generations; `round_trip_s` is the way to the coordinator and back."""

    clock: VirtualClock
    step_s: float = 0.004
    row_s: float = 0.0001
    round_trip_s: float = 0.0
    message_s: float = 0.0003
    draws: bool = True
    """It has a model: it proposes tokens where it has nothing to copy."""
    machine: Machine = field(default_factory=Machine)
    _works: list[Work] = field(default_factory=list)
    _came: Signal = field(default_factory=Signal)

    def __post_init__(self) -> None:
        self.clock.start(self._serve())

    def open(self, deliver: Callable[[Delivery], None], new_chain: Callable[[int], Chain]) -> Work:
        """A new generation."""
        work = Work(deliver, new_chain, draws=self.draws)
        self._works.append(work)
        return work

    def close(self, work: Work) -> None:
        """It has ended."""
        self._works.remove(work)

    def commit(self, work: Work, committed: int, plan: DraftPlan) -> None:
        """Sends what is committed, and how far to go."""
        sent = self.clock.now
        self.clock.later(
            self.round_trip_s / 2 + self.message_s, lambda: self._begin(work, committed, plan, sent)
        )

    def _begin(self, work: Work, committed: int, plan: DraftPlan, sent: float) -> None:
        work.committed = committed
        work.together_until = committed + max(1, plan.together or plan.draft_length)
        work.until = committed + plan.draft_length + plan.ahead
        work.copy_until = work.until + plan.copies if plan.copies else 0
        work.branches, work.branch_length = plan.branches, plan.branch_length
        work.acceptance = plan.acceptance or 0.5
        before = chain = work.chain
        while chain is not None:
            wrong = self._first_wrong(chain, committed)
            if wrong is None:
                break
            chain = chain.correction(wrong)
        if chain is None:
            chain = work.new_chain(committed)
            work.asked = sent
        behind = committed - chain.base - chain.drawn
        if behind > 0:
            for place in range(chain.base + chain.drawn, committed):
                chain.skip(place)
            chain.drawn += behind
            work.asked = sent
        work.growing = [one for one in work.growing if chain is before and one.base > committed]
        work.chain = chain
        work.since = self.clock.now
        work.tokens = work.steps = 0
        work.model_s = work.queue_s = 0.0
        work.offers = work.copy_until > committed >= work.until and work.at == committed
        begun = work.at
        self._copy(work, chain)
        if work.at > begun or work.offers:
            self._deliver(work, chain, [])
        self._came.fire()

    @staticmethod
    def _copy(work: Work, chain: Chain) -> None:
        """Goes on as far as there is something to copy, which takes no step."""
        while work.at < max(work.until, work.copy_until) and chain.copied(work.at):
            chain.drawn += 1

    @staticmethod
    def _first_wrong(chain: Chain, committed: int) -> int | None:
        for place in range(chain.base, min(committed, chain.base + chain.drawn)):
            if not chain.right(place):
                return place
        return None

    def _serve(self) -> Process:
        while True:
            active = [work for work in self._works if work.rows]
            if not active:
                yield Wait(signal=self._came)
                continue
            for work in active:
                work.queue_s += self.clock.now - work.since
            chains = [(work, work.chain) for work in active]
            rows = sum(work.rows for work in active)
            with self.machine.using() as slowdown:
                step_s = slowdown * (self.step_s + self.row_s * (rows - 1))
                yield Wait(step_s)
            for work, chain in chains:
                if chain is not None and work.chain is chain:
                    self._step(work, chain, step_s)

    def _step(self, work: Work, chain: Chain, step_s: float) -> None:
        work.steps += 1
        work.model_s += step_s
        work.since = self.clock.now
        if work.draws and work.at < work.until:
            chain.drawn += 1
            work.tokens += 1
            self._copy(work, chain)
        for branch in work.growing:
            branch.drawn += 1
            work.tokens += 1
        grown = work.growing
        work.growing = [one for one in grown if one.drawn < work.branch_length]
        if work.at < work.together_until:
            return
        self._branch_out(work, chain)
        self._deliver(work, chain, grown)

    def _deliver(self, work: Work, chain: Chain, grown: list[Chain]) -> None:
        facts = DraftFacts(
            tokens=work.tokens,
            steps=work.steps,
            model_s=work.model_s,
            queue_s=work.queue_s,
            round_trip_s=None
            if work.asked is None
            else self.clock.now
            - work.asked
            + self.round_trip_s / 2
            + self.message_s
            - work.model_s
            - work.queue_s,
            copied=work.at - work.committed if work.offers else None,
        )
        work.asked = None
        work.offers = False
        chains = [(chain, chain.drawn), *((one, one.drawn) for one in grown)]
        delivery = Delivery(chains, facts)
        work.tokens = work.steps = 0
        work.model_s = work.queue_s = 0.0
        self.clock.later(self.round_trip_s / 2 + self.message_s, lambda: work.deliver(delivery))

    @staticmethod
    def _branch_out(work: Work, chain: Chain) -> None:
        """Begins side branches as the draft service does; ranks stand for token ids."""
        free = work.branches - len(work.growing)
        if free <= 0 or not work.branch_length:
            return
        first = max(chain.base, work.committed)
        ranks = range(len(HITS))
        places = [
            Place(None, ALTERNATIVES, {rank for rank in ranks if (place, rank) in chain.branches})
            for place in range(first, chain.base + chain.drawn)
        ]
        chosen = likeliest(places, free=free, branches=work.branches, acceptance=work.acceptance)
        work.growing.extend(chain.branch(first + place, rank) for place, rank in chosen)
