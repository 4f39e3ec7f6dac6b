"""Waiting for the generations just answered: how long, for whom, and what it is good for."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from statistics import mean

import pytest

from outrider.engine.gathering import Gathering, NoGathering, WaitForReturns

STEP_S = 0.100


def answer(gathering: WaitForReturns, *streams: str, now: float, step_s: float = STEP_S) -> None:
    """A step ends with an answer for these."""
    for stream in streams:
        gathering.answered(stream, now=now)
    gathering.step_ended(step_s=step_s)


def after_rounds(*returns: float) -> WaitForReturns:
    """A stream "a" that took these times to come back, and is here now, at 1000 s."""
    gathering = WaitForReturns()
    for time in returns:
        answer(gathering, "a", now=1000.0 - time)
        gathering.arrived("a", now=1000.0)
    return gathering


def test_nothing_was_answered() -> None:
    gathering = WaitForReturns()
    gathering.arrived("a", now=0.0)
    gathering.arrived("a", now=1.0)
    gathering.step_ended(step_s=STEP_S)
    assert gathering.until <= 2.0


def test_a_first_answer_is_not_waited_for() -> None:
    gathering = WaitForReturns()
    gathering.arrived("a", now=0.0)
    answer(gathering, "a", now=1.0)
    assert gathering.until <= 1.0


def test_it_waits_as_long_as_the_return_took() -> None:
    gathering = after_rounds(0.010)
    answer(gathering, "a", now=2000.0)
    assert gathering.until == pytest.approx(2000.010)


def test_one_odd_return_in_many_changes_nothing() -> None:
    gathering = after_rounds(*[0.010] * 10, 3.0, *[0.010] * 5)
    answer(gathering, "a", now=2000.0)
    assert gathering.until == pytest.approx(2000.010)


def test_most_returns_are_within_the_wait() -> None:
    gathering = after_rounds(*(0.0005 * number for number in range(1, 33)))
    answer(gathering, "a", now=2000.0)
    assert gathering.until == pytest.approx(2000.0155)


def test_who_needs_more_than_a_quarter_of_a_step_is_not_waited_for() -> None:
    gathering = after_rounds(0.026)
    answer(gathering, "a", now=2000.0)
    assert gathering.until <= 2000.0
    gathering.arrived("a", now=2000.026)
    answer(gathering, "a", now=2001.0, step_s=2 * STEP_S)
    assert gathering.until == pytest.approx(2001.026)


def test_the_wait_ends_when_all_are_back() -> None:
    gathering = WaitForReturns()
    for stream, time in (("a", 0.010), ("b", 0.020)):
        answer(gathering, stream, now=0.0)
        gathering.arrived(stream, now=time)
    answer(gathering, "a", "b", now=1.0)
    assert gathering.until == pytest.approx(1.020)
    gathering.arrived("b", now=1.001)
    assert gathering.until > 1.001
    gathering.arrived("a", now=1.002)
    assert gathering.until <= 1.002


def test_who_is_back_before_the_step_ends_is_not_waited_for() -> None:
    gathering = after_rounds(0.010)
    gathering.answered("a", now=2000.0)
    gathering.arrived("a", now=2000.001)
    gathering.step_ended(step_s=STEP_S)
    assert gathering.until <= 2000.0


def test_a_newcomer_ends_the_wait() -> None:
    gathering = after_rounds(0.010)
    answer(gathering, "a", now=2000.0)
    gathering.arrived("new", now=2000.001)
    assert gathering.until <= 2000.001


def test_a_stream_that_ended_is_not_waited_for() -> None:
    gathering = after_rounds(0.010)
    answer(gathering, "a", now=2000.0)
    gathering.forget("a")
    assert gathering.until <= 2000.0
    gathering.forget("a")


def test_a_stream_that_stays_away_is_waited_for_once() -> None:
    gathering = after_rounds(0.010)
    answer(gathering, "a", now=2000.0)
    gathering.step_ended(step_s=STEP_S)
    assert gathering.until <= 2000.1


def test_none_is_never_more_than_none() -> None:
    gathering = NoGathering()
    gathering.arrived("a", now=0.0)
    gathering.answered("a", now=1.0)
    gathering.step_ended(step_s=STEP_S)
    gathering.forget("a")
    assert gathering.until < 0.0


@dataclass(frozen=True)
class Run:
    """What a simulated worker did, over its second half."""

    mean_batch: float
    per_second: float


def simulate(gathering: Gathering, *, streams: int, return_s: float, steps: int = 400) -> Run:
    """Generations on one worker by a clock of its own: a step of n takes 40 ms + n · 1 ms.

    A generation comes back `return_s` after its answer, give or take a third.
    """
    chance = random.Random(7)
    arrivals = [(chance.uniform(0.0, 0.040), f"{number}") for number in range(streams)]
    heapq.heapify(arrivals)
    queue: list[str] = []
    now = 0.0
    sizes: list[int] = []
    ends: list[float] = []

    def take_arrivals(until: float) -> None:
        while arrivals and arrivals[0][0] <= until:
            time, stream = heapq.heappop(arrivals)
            gathering.arrived(stream, now=time)
            queue.append(stream)

    while len(sizes) < steps:
        take_arrivals(now)
        if not queue or gathering.until > now:
            following = [time for time, _ in arrivals[:1]]
            if queue:
                following.append(gathering.until)
            now = min(following)
            continue
        batch, step_s = list(queue), 0.040 + 0.001 * len(queue)
        queue.clear()
        now += step_s
        take_arrivals(now)
        for stream in batch:
            gathering.answered(stream, now=now)
        gathering.step_ended(step_s=step_s)
        for stream in batch:
            back = now + return_s * chance.uniform(0.67, 1.33)
            heapq.heappush(arrivals, (back, stream))
        sizes.append(len(batch))
        ends.append(now)
    half = steps // 2
    return Run(mean(sizes[half:]), sum(sizes[half + 1 :]) / (ends[-1] - ends[half]))


@pytest.mark.parametrize("streams", [4, 8, 16])
@pytest.mark.parametrize("return_s", [0.0005, 0.004])
def test_generations_split_into_groups_unless_they_are_waited_for(
    streams: int, return_s: float
) -> None:
    ideal = streams / (0.040 + 0.001 * streams)
    split = simulate(NoGathering(), streams=streams, return_s=return_s)
    together = simulate(WaitForReturns(), streams=streams, return_s=return_s)
    assert split.mean_batch < 0.7 * streams
    assert split.per_second < 0.75 * ideal
    assert together.mean_batch > 0.95 * streams
    assert together.per_second > 0.8 * ideal


def test_waiting_costs_nothing_where_returns_take_long() -> None:
    split = simulate(NoGathering(), streams=8, return_s=0.030)
    waiting = simulate(WaitForReturns(), streams=8, return_s=0.030)
    assert waiting.per_second == pytest.approx(split.per_second, rel=0.01)
