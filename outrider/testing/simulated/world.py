"""Many generations against one target and one draft, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from outrider.testing.simulated.clock import Process, VirtualClock, Wait
from outrider.testing.simulated.draft import SimulatedDraft
from outrider.testing.simulated.loop import SimulatedGeneration
from outrider.testing.simulated.machine import Machine
from outrider.testing.simulated.policies import Policy
from outrider.testing.simulated.tally import Tally
from outrider.testing.simulated.target import SimulatedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is simulated; times in seconds."""

    acceptance: float | Callable[[float, int], float] = 0.8
    """Of each draft token; a function gets the time and the place in the output."""
    copies: Callable[[int], float | None] | None = None
    """How likely a copied token is right at each place of an output; None there: nothing to copy.
    None: the draft does not copy."""
    draws: bool = True
    """The draft has a model."""
    match: float = 1.0
    """How likely the target alone takes a token that it would have accepted; 1: greedy."""
    round_trip_s: float = 0.0
    concurrency: int = 1
    target_s: float = 0.040
    target_row_s: float = 0.0004
    hop_s: float = 0.0015
    draft_s: float = 0.004
    draft_row_s: float = 0.0001
    slowdown: float = 1.0
    """How much longer a step of either model takes that begins while the other is at work."""
    length: int = 128
    """Output tokens of each generation."""
    seconds: float = 20.0
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    tokens: int
    seconds: float
    generations: list[SimulatedGeneration]

    @property
    def rate(self) -> float:
        """Output tokens in a second."""
        return self.tokens / self.seconds

    @property
    def tally(self) -> Tally:
        """Of all generations together."""
        total = Tally()
        for one in self.generations:
            for name in Tally.__slots__:
                setattr(total, name, getattr(total, name) + getattr(one.tally, name))
        return total


class World:
    """The services; phases of a scene may follow each other."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.clock = VirtualClock()
        machine = Machine(scene.slowdown)
        self.target = SimulatedTarget(
            self.clock, scene.target_s, scene.target_row_s, scene.hop_s, machine
        )
        self.draft = SimulatedDraft(
            self.clock,
            scene.draft_s,
            scene.draft_row_s,
            scene.round_trip_s,
            draws=scene.draws,
            machine=machine,
        )
        self.chance = Random(scene.seed)
        self._streams = 0
        self._stopped = False

    def run(self, policy: Callable[[], Policy], *, seconds: float | None = None) -> Outcome:
        """Keeps `concurrency` generations going for that long, from now on; then lets them end."""
        generations: list[SimulatedGeneration] = []
        began = self.clock.now
        until = began + (self.scene.seconds if seconds is None else seconds)

        def user() -> Process:
            yield Wait(self.chance.random() * 0.05)
            while self.clock.now < until:
                one = self._generation(policy())
                generations.append(one)
                self.clock.start(one.run())
                yield Wait(signal=one.ended)

        for _ in range(self.scene.concurrency):
            self.clock.start(user())
        self.clock.run(until)
        tokens = sum(one.tally.tokens for one in generations)
        outcome = Outcome(tokens, until - began, list(generations))
        self.clock.run(until + 10_000.0)
        return outcome

    def change(self, **fields: float) -> None:
        """Other terms from now on."""
        self.scene = replace(self.scene, **fields)  # type: ignore[arg-type]
        self.draft.round_trip_s = self.scene.round_trip_s

    def _generation(self, policy: Policy) -> SimulatedGeneration:
        self._streams += 1
        given = self.scene.acceptance

        def acceptance(place: int) -> float:
            return given(self.clock.now, place) if callable(given) else given

        return SimulatedGeneration(
            self.clock,
            self.target,
            self.draft,
            policy,
            stream=self._streams,
            length=self.scene.length,
            acceptance=acceptance,
            match=self.scene.match,
            copies=self.scene.copies,
            chance=Random(self.chance.random()),
        )


def rate(scene: Scene, policy: Callable[[], Policy]) -> float:
    """Tokens in a second."""
    return World(scene).run(policy).rate
