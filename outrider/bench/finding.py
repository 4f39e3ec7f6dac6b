"""What one setting's figures mean, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from outrider.bench.break_even import BreakEven, break_even
from outrider.bench.cell import Cell, Place
from outrider.bench.setting import TARGET_ONLY
from outrider.bench.statistics import FEWEST_SAMPLES, Estimate
from outrider.cli.figures import percent, signed

SELDOM = 0.05
"""Where fewer rounds had draft tokens, the target decoded alone nearly always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One setting at one place, in words."""

    setting: str
    place: Place
    headline: str
    arithmetic: str
    break_even: BreakEven | None


def findings(cells: Sequence[Cell]) -> Iterator[Finding]:
    """One for each setting and place, those of one place side by side."""
    for _, group in groupby(cells, key=lambda one: one.place):
        by_name = {one.setting: one for one in group}
        alone = by_name.pop(TARGET_ONLY.name)
        for one in by_name.values():
            yield _finding(one, alone)


def at_once(concurrency: int) -> str:
    """Such a load in words."""
    return "one at a time" if concurrency == 1 else f"{concurrency} at once"


def where(place: Place) -> str:
    """Load and distance in words."""
    if place.round_trip_ms is None:
        return at_once(place.concurrency)
    return f"{at_once(place.concurrency)}, draft {place.round_trip_ms:g} ms away"


def brief(place: Place) -> str:
    """The same where there is little room."""
    trip = "" if place.round_trip_ms is None else f", {place.round_trip_ms:g} ms"
    return f"{place.concurrency} at once{trip}"


def interval(value: Estimate) -> str:
    """`1.24 × (1.19 to 1.30)`."""
    if value.low is None or value.high is None:
        return f"{value.median:.2f} ×"
    return f"{value.median:.2f} × ({value.low:.2f} to {value.high:.2f})"


def drafted_share(one: Cell) -> float:
    """Of its rounds, those that had draft tokens; 0 to 1."""
    return one.rounds.share_of_rounds(one.rounds.drafted_rounds) or 0.0


def _finding(one: Cell, alone: Cell) -> Finding:
    assert one.versus is not None  # noqa: S101
    numbers = break_even(one, alone)
    return Finding(
        setting=one.setting,
        place=one.place,
        headline=f"{where(one.place)}, {one.setting}: {_worded(one.versus.speed)}",
        arithmetic=_arithmetic(numbers, drafted=drafted_share(one)) if numbers else "",
        break_even=numbers,
    )


def _worded(speed: Estimate) -> str:
    if speed.low is None:
        few = f"turns: {speed.samples}, and {FEWEST_SAMPLES} are needed to tell it from noise"
        return f"{interval(speed)} the speed of the target alone; {few}"
    if speed.above_one:
        return f"faster, {interval(speed)} the speed of the target alone"
    if speed.below_one:
        return f"slower, {interval(speed)} the speed of the target alone"
    return f"no difference from the target alone that is more than noise, {interval(speed)}"


def _arithmetic(one: BreakEven, *, drafted: float) -> str:
    parts = {
        "verifying more rows": one.overhead.verify,
        "waiting for the draft": one.overhead.draft_wait,
        "hops": one.overhead.hop,
        "queues": one.overhead.queue,
    }
    over = ", ".join(f"{what} {signed(part)}" for what, part in parts.items())
    pays = one.speed > 1.0
    text = (
        f"A round brought {one.tokens_per_round:.2f} output tokens and took "
        f"{one.round_steps:.2f} steps of the target alone ({one.round_ms:.1f} ms against "
        f"{one.step_ms:.1f} ms; {over}): {one.tokens_per_round:.2f} ÷ {one.round_steps:.2f} = "
        f"{one.speed:.2f}."
    )
    if drafted < SELDOM:
        return f"{text} Only {percent(drafted)} of the rounds had draft tokens."
    text += (
        f" {'It pays' if pays else 'It would pay'} from "
        f"{max(1.0, one.round_steps):.2f} tokens per round on"
    )
    if one.needed_acceptance is None:
        return f"{text}, more than this many draft tokens can bring at any acceptance."
    return (
        f"{text}, which takes an acceptance of {one.needed_acceptance:.2f}; "
        f"it was {one.acceptance:.2f}."
    )
