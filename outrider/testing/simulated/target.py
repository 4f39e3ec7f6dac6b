"""A target that batches what is waiting; a step takes a base and a time for each row."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from outrider.testing.simulated.clock import Process, Signal, VirtualClock, Wait
from outrider.testing.simulated.machine import Machine

GATHERED_SHARE = 0.25
PRICE_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """One verdict's timings, as Verdict has them; seconds."""

    model_s: float
    queue_s: float
    batch_size: int
    price: float


@dataclass(slots=True)
class Job:
    """Rounds of one stream: `rows` now, then `further` steps of a row each."""

    stream: int
    rows: int
    further: int
    judge: Callable[[], int]
    """Decides one step's output; how many tokens that is."""
    answer: Callable[[Answer], None]
    since: float = 0.0


@dataclass
class SimulatedTarget:
    """Serves streams; `hop_s` is the way there and back and everything around the forward."""

    clock: VirtualClock
    base_s: float = 0.040
    row_s: float = 0.0004
    hop_s: float = 0.0015
    machine: Machine = field(default_factory=Machine)
    chance: Random = field(default_factory=lambda: Random(1))
    _waiting: list[Job] = field(default_factory=list)
    _came: Signal = field(default_factory=Signal)
    _away: dict[int, float] = field(default_factory=dict)
    _returns: dict[int, deque[float]] = field(default_factory=dict)
    _outputs: float = 0.0
    _step_s: float = 0.0

    def __post_init__(self) -> None:
        self.clock.start(self._serve())

    def send(self, job: Job) -> None:
        """A round is on its way."""

        def arrive() -> None:
            left = self._away.pop(job.stream, None)
            if left is not None:
                self._returns.setdefault(job.stream, deque(maxlen=32)).append(self.clock.now - left)
            job.since = self.clock.now
            self._waiting.append(job)
            self._came.fire()

        self.clock.later(self._way_s(), arrive)

    def forget(self, stream: int) -> None:
        """The stream has ended."""
        self._away.pop(stream, None)
        self._returns.pop(stream, None)

    def _way_s(self) -> float:
        """One way, now a little longer and now a little shorter."""
        return self.hop_s * (0.3 + 0.4 * self.chance.random())

    def _serve(self) -> Process:
        while True:
            while not self._waiting:
                yield Wait(signal=self._came)
            batch, self._waiting = self._waiting, []
            started = self.clock.now
            rows = sum(job.rows for job in batch)
            with self.machine.using() as slowdown:
                step_s = slowdown * (self.base_s + self.row_s * rows)
                yield Wait(step_s)
            outputs = [job.judge() for job in batch]
            self._learn(sum(outputs), step_s)
            for job in batch:
                self._finish(job, started, step_s, len(batch))
            yield from self._gather(step_s, [job.stream for job in batch if not job.further])

    def _finish(self, job: Job, started: float, step_s: float, batch: int) -> None:
        price = self._outputs * self.row_s / self._step_s
        answer = Answer(step_s, started - job.since, batch, price)
        self.clock.later(self._way_s(), lambda: job.answer(answer))
        if job.further:
            job.rows, job.further, job.since = 1, job.further - 1, self.clock.now
            self._waiting.append(job)
        else:
            self._away[job.stream] = self.clock.now

    def _gather(self, step_s: float, answered: list[int]) -> Process:
        longest = GATHERED_SHARE * step_s
        until = self.clock.now
        awaited = set()
        for stream in answered:
            times = self._returns.get(stream)
            usual = sorted(times)[int(0.97 * (len(times) - 1))] if times else longest + 1
            if usual <= longest:
                awaited.add(stream)
                until = max(until, self.clock.now + usual)
        while awaited & self._away.keys() and self.clock.now < until:
            yield Wait(until - self.clock.now, self._came)

    def _learn(self, outputs: int, step_s: float) -> None:
        step = PRICE_STEP if self._step_s else 1.0
        self._outputs += step * (outputs - self._outputs)
        self._step_s += step * (step_s - self._step_s)
