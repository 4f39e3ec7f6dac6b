"""How likely draft tokens are to be accepted, by where they come from: learned from the output.

What an output shows of copies is free of choice: at each of its places a copy would have been right
or not, whether one was proposed or not. Of drawn tokens only those that were proposed are known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 20)
"""Copies are told apart by how many ids before them agree: from each of these to the next."""
DRAWN = 0.45
"""A drawn token's chance before anything is known."""

REMEMBERED_BY_STREAM = 64.0
REMEMBERED_BY_WORKER = 2000.0
"""So many outcomes count; older ones fade."""
STREAM_WEIGHT = 8.0
WORKER_WEIGHT = 40.0
"""How many outcomes what was believed before is worth."""


class Source(Enum):
    """What a copy is taken from."""

    GENERATION = auto()
    """The same generation, its prompt included."""
    RECENT = auto()
    """Recent outputs of the same cache scope."""


BEFORE = {
    (Source.GENERATION, False): (0.14, 0.39, 0.47, 0.61, 0.62, 0.69, 0.74, 0.80, 0.92),
    (Source.GENERATION, True): (0.19, 0.48, 0.59, 0.73, 0.75, 0.80, 0.87, 0.91, 0.98),
    (Source.RECENT, False): (0.12, 0.26, 0.35, 0.43, 0.50, 0.60, 0.72, 0.78, 0.92),
    (Source.RECENT, True): (0.15, 0.32, 0.44, 0.52, 0.60, 0.69, 0.85, 0.90, 0.98),
}
"""How often copies were right, by those lengths, at temperature 1 and greedily (True):
SmolLM2-135M-Instruct answering mixed prompts."""


@dataclass(slots=True)
class Tally:
    """Outcomes, the older ones faded."""

    hits: float = 0.0
    trials: float = 0.0

    def add(self, *, hit: float, most: float) -> None:
        """One more outcome. `most`: so many count."""
        fade = min(1.0, most / (self.trials + 1.0))
        self.hits = (self.hits + hit) * fade
        self.trials = (self.trials + 1.0) * fade

    def chance(self, *, before: float, weight: float) -> float:
        """Of a hit, believed to be `before` until outcomes come, and for `weight` of them."""
        return (self.hits + weight * before) / (self.trials + weight)


class WorkerChances:
    """What all streams of a worker that sample alike showed."""

    def __init__(self, *, greedy: bool) -> None:
        """`greedy`: the target takes the likeliest token."""
        self._greedy = greedy
        self._copied: defaultdict[tuple[Source, int], Tally] = defaultdict(Tally)
        self._drawn = Tally()

    def copied(self, source: Source, grade: int) -> float:
        """Of a copy whose match has that grade."""
        tally = self._copied[source, grade]
        return tally.chance(before=BEFORE[source, self._greedy][grade], weight=WORKER_WEIGHT)

    def drawn(self) -> float:
        """Of a token that the model drew."""
        return self._drawn.chance(before=DRAWN, weight=WORKER_WEIGHT)

    def saw_copied(self, source: Source, grade: int, *, hit: bool) -> None:
        """A copy would have been right, or not."""
        self._copied[source, grade].add(hit=hit, most=REMEMBERED_BY_WORKER)

    def saw_drawn(self, *, hit: bool) -> None:
        """A drawn token was accepted, or not."""
        self._drawn.add(hit=hit, most=REMEMBERED_BY_WORKER)


class Chances:
    """What one generation showed, beside what its worker knows."""

    def __init__(self, worker: WorkerChances) -> None:
        self._worker = worker
        self._copied: defaultdict[tuple[Source, int], Tally] = defaultdict(Tally)
        self._drawn: defaultdict[int, Tally] = defaultdict(Tally)
        self._all_drawn = Tally()

    def copied(self, source: Source, length: int) -> float:
        """Of a copy, `length` ids before which agree."""
        grade = grade_of(length)
        before = self._worker.copied(source, grade)
        return self._copied[source, grade].chance(before=before, weight=STREAM_WEIGHT)

    def drawn(self, length: int) -> float:
        """Of a token that the model draws where there is a match of that length; 0: none."""
        usual = self._all_drawn.chance(before=self._worker.drawn(), weight=STREAM_WEIGHT)
        return self._drawn[grade_of(length)].chance(before=usual, weight=STREAM_WEIGHT)

    def saw_copied(self, source: Source, length: int, *, hit: bool) -> None:
        """A copy would have been right, or not."""
        grade = grade_of(length)
        self._worker.saw_copied(source, grade, hit=hit)
        self._copied[source, grade].add(hit=hit, most=REMEMBERED_BY_STREAM)

    def saw_drawn(self, length: int, *, hit: bool) -> None:
        """A token drawn beside a match of that length was accepted, or not."""
        self._worker.saw_drawn(hit=hit)
        self._all_drawn.add(hit=hit, most=REMEMBERED_BY_STREAM)
        self._drawn[grade_of(length)].add(hit=hit, most=REMEMBERED_BY_STREAM)


def grade_of(length: int) -> int:
    """Which of LENGTHS it is at least, counted from 0; -1: none."""
    return bisect_right(LENGTHS, length) - 1
