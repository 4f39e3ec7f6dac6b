"""Drafting while the target verifies, against waiting for each other, over a slow draft hop."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

from benchmarks.chat_load import ChatLoad, chats
from benchmarks.distant_draft import DistantDraft, running_with_distant_draft
from benchmarks.emulated_pair import LIKE_A_GPU_PAIR, PairTimes, running_emulated
from benchmarks.results import Row
from benchmarks.services import embedded_programs, pinned
from benchmarks.speculation import (
    EmulatedLoad,
    Load,
    Run,
    compete,
    rate,
    ratios,
    round_words,
)
from benchmarks.subject import EMBEDDED
from benchmarks.ways import AUTO, OFF, Way, synchronous
from outrider.testing.emulated import HITS, Agreement

ROUND_TRIPS_S = (0.0, 0.010, 0.025, 0.050)
ACCEPTANCE = 0.8
DRAFT_LENGTHS = (6, 8, 10)
OUTPUT_TOKENS = 160
EMBEDDED_ROUND_TRIPS_S = (0.0, 0.025, 0.050)
EMBEDDED_DRAFT_LENGTHS = (1, 2)
EMBEDDED_TOKENS = 64
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
    runs: int = 5,
    output_tokens: int = OUTPUT_TOKENS,
    times: PairTimes = LIKE_A_GPU_PAIR,
) -> Iterator[Row]:
    """A row for each round trip, `draft_ahead_25ms`, and `draft_ahead_slope` of all of them."""
    load = EmulatedLoad(
        agreement=Agreement(acceptance=ACCEPTANCE), count=1, output_tokens=output_tokens
    )
    note = (
        f"greedy, acceptance {ACCEPTANCE}, the draft's next-best hit {HITS[0]:g} with one "
        f"alternative, {sum(HITS):.2f} with four; one generation of {output_tokens} tokens, "
        f"in turns; {times.words}"
    )
    with running_emulated(times) as services:
        found = _hops(services, round_trips_s, draft_lengths, load, runs=runs)
    for hop in found:
        yield _row("draft_ahead", hop, note, bar=BARS.get(hop.round_trip_s, ""))
    if len(found) > 1:
        yield _slope("draft_ahead", found, note, bar=SLOPE_BAR)


def measure_embedded(
    *,
    round_trips_s: Sequence[float] = EMBEDDED_ROUND_TRIPS_S,
    draft_lengths: Sequence[int] = EMBEDDED_DRAFT_LENGTHS,
    prompts: int = 4,
    output_tokens: int = EMBEDDED_TOKENS,
) -> Iterator[Row]:
    """The same of the embedded pair, `draft_ahead_embedded_25ms`: a run for each prompt."""
    load = ChatLoad(chats=chats(prompts), temperature=0.0, output_tokens=output_tokens)
    placement = pinned()
    note = (
        f"greedy, a chat of each kind of task, {output_tokens} tokens each, in turns; embedded "
        f"pair, {EMBEDDED.dtype}; {placement.words}"
    )
    programs = embedded_programs(dtype=EMBEDDED.dtype, threads=placement.threads)
    with running_with_distant_draft(programs, placement) as services:
        found = _hops(services, round_trips_s, draft_lengths, load, runs=prompts)
    for hop in found:
        yield _row("draft_ahead_embedded", hop, note)
    if len(found) > 1:
        yield _slope("draft_ahead_embedded", found, note)


def _hops(
    services: DistantDraft,
    round_trips_s: Sequence[float],
    draft_lengths: Sequence[int],
    load: Load,
    *,
    runs: int,
) -> list[_Hop]:
    ways = {
        AHEAD: AUTO,
        ALONE: OFF,
        **{f"k = {length}": synchronous(length) for length in draft_lengths},
    }
    return [_hop(services, trip_s, ways, load, runs=runs) for trip_s in round_trips_s]


def _hop(
    services: DistantDraft,
    round_trip_s: float,
    ways: Mapping[str, Way],
    load: Load,
    *,
    runs: int,
) -> _Hop:
    measured_s = services.move(round_trip_s)
    print(f"  round trip {measured_s * 1000:.1f} ms", file=sys.stderr, flush=True)
    # What the coordinator has learnt at another distance is not part of this one.
    compete(services.coordinator, {AHEAD: ways[AHEAD]}, load, runs=1, first_edition=0)
    return _Hop(round_trip_s, measured_s, compete(services.coordinator, ways, load, runs=runs))


def _row(name: str, hop: _Hop, note: str, *, bar: str = "") -> Row:
    best = hop.best
    found = ratios(hop.runs[AHEAD], hop.runs[best])
    others = ", ".join(
        f"{way} {rate(runs):.1f}" for way, runs in hop.runs.items() if way not in (AHEAD, best)
    )
    return Row(
        f"{name}_{hop.round_trip_s * 1000:.0f}ms",
        rate(hop.runs[AHEAD]),
        "tokens/s",
        len(found),
        ratio=median(found),
        against=f"synchronous, best {best}, {rate(hop.runs[best]):.1f} tokens/s",
        bar=bar,
        note=f"ratios {min(found):.2f} to {max(found):.2f}; tokens/s: {others}; "
        f"{round_words(hop.runs[AHEAD])}; round trip measured {hop.measured_s * 1000:.1f} ms; "
        f"{note}",
    )


def _slope(name: str, hops: Sequence[_Hop], note: str, *, bar: str = "") -> Row:
    """Milliseconds per token that a millisecond of round trip adds."""
    trips = [hop.measured_s * 1000 for hop in hops]
    ahead, behind = (
        linear_regression(trips, [hop.ms_per_token(way(hop)) for hop in hops]).slope
        for way in (lambda hop: AHEAD, lambda hop: hop.best)
    )
    return Row(
        f"{name}_slope",
        ahead,
        "ms per token and ms",
        len(hops),
        ratio=ahead / behind,
        against=f"the best synchronous k at each round trip, {behind:.3f}",
        bar=bar,
        note=f"least squares over round trips {', '.join(f'{trip:.0f}' for trip in trips)} ms, "
        f"measured; {note}",
    )
