"""Drafting while the target verifies, against waiting for each other, over a slow draft hop."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

from benchmarks.distant_draft import DistantDraft
from benchmarks.emulated_pair import LIKE_A_GPU_PAIR, PairTimes, running_emulated
from benchmarks.results import Row
from benchmarks.speculation import (
    Load,
    Run,
    compete,
    rate,
    ratios,
    round_words,
)
from benchmarks.ways import AUTO, OFF, Way, synchronous
from outrider.testing.emulated import HITS, Agreement

ROUND_TRIPS_S = (0.0, 0.010, 0.025, 0.050)
ACCEPTANCE = 0.8
DRAFT_LENGTHS = (4, 6, 8, 10)
OUTPUT_TOKENS = 160
BARS = {0.025: "≥ 1.3", 0.050: "≥ 1.3"}
SLOPE_BAR = "≤ 0.5"
AHEAD, ALONE = "ahead", "alone"


@dataclass(frozen=True, slots=True)
class _Hop:
    """The ways' runs at one round trip. `measured_s`: of a call over that hop."""

    round_trip_s: float
    measured_s: float
    runs: Mapping[str, Sequence[Run]]

    @property
    def best(self) -> str:
        """The fastest of the synchronous ways."""
        return max(self.runs.keys() - {AHEAD, ALONE}, key=lambda way: rate(self.runs[way]))

    def ms_per_token(self, way: str) -> float:
        """Of one generation."""
        return 1000.0 / rate(self.runs[way])


def measure(
    *,
    round_trips_s: Sequence[float] = ROUND_TRIPS_S,
    draft_lengths: Sequence[int] = DRAFT_LENGTHS,
    runs: int = 3,
    output_tokens: int = OUTPUT_TOKENS,
    times: PairTimes = LIKE_A_GPU_PAIR,
) -> Iterator[Row]:
    """A row for each round trip, `draft_ahead_25ms`, and `draft_ahead_slope` of all of them."""
    load = Load(agreement=Agreement(acceptance=ACCEPTANCE), count=1, output_tokens=output_tokens)
    ways = {
        AHEAD: AUTO,
        ALONE: OFF,
        **{f"k = {length}": synchronous(length) for length in draft_lengths},
    }
    note = (
        f"greedy, acceptance {ACCEPTANCE}, the draft's next-best hit {HITS[0]:g} with one "
        f"alternative, {sum(HITS):.2f} with four; one generation of {output_tokens} tokens, "
        f"in turns; {times.words}"
    )
    hops = []
    with running_emulated(times) as pair:
        for round_trip_s in round_trips_s:
            hops.append(_hop(pair, round_trip_s, ways, load, runs=runs))
            yield _row(hops[-1], note)
    if len(hops) > 1:
        yield _slope(hops, note)


def _hop(
    pair: DistantDraft, round_trip_s: float, ways: Mapping[str, Way], load: Load, *, runs: int
) -> _Hop:
    measured_s = pair.move(round_trip_s)
    print(f"  round trip {measured_s * 1000:.1f} ms", file=sys.stderr, flush=True)
    # What the coordinator has learnt at another distance is not part of this one.
    compete(pair.coordinator, {AHEAD: ways[AHEAD]}, load, runs=1, first_edition=0)
    return _Hop(round_trip_s, measured_s, compete(pair.coordinator, ways, load, runs=runs))


def _row(hop: _Hop, note: str) -> Row:
    best = hop.best
    found = ratios(hop.runs[AHEAD], hop.runs[best])
    others = ", ".join(
        f"{way} {rate(runs):.1f}" for way, runs in hop.runs.items() if way not in (AHEAD, best)
    )
    return Row(
        f"draft_ahead_{hop.round_trip_s * 1000:.0f}ms",
        rate(hop.runs[AHEAD]),
        "tokens/s",
        len(found),
        ratio=median(found),
        against=f"synchronous, best {best}, {rate(hop.runs[best]):.1f} tokens/s",
        bar=BARS.get(hop.round_trip_s, ""),
        note=f"ratios {min(found):.2f} to {max(found):.2f}; tokens/s: {others}; "
        f"{round_words(hop.runs[AHEAD])}; round trip measured {hop.measured_s * 1000:.1f} ms; "
        f"{note}",
    )


def _slope(hops: Sequence[_Hop], note: str) -> Row:
    """Milliseconds per token that a millisecond of round trip adds."""
    trips = [hop.measured_s * 1000 for hop in hops]
    ahead, behind = (
        linear_regression(trips, [hop.ms_per_token(way(hop)) for hop in hops]).slope
        for way in (lambda hop: AHEAD, lambda hop: hop.best)
    )
    return Row(
        "draft_ahead_slope",
        ahead,
        "ms per token and ms",
        len(hops),
        ratio=ahead / behind,
        against=f"the best synchronous k at each round trip, {behind:.3f}",
        bar=SLOPE_BAR,
        note=f"least squares over round trips {', '.join(f'{trip:.0f}' for trip in trips)} ms, "
        f"measured; {note}",
    )
