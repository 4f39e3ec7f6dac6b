"""Speculation as the coordinator chooses it against the target alone, where it may not pay.

Both ways take turns on the same services, run by run. The draft's acceptance comes with the
prompts and its distance from a proxy, so nothing is started anew between cells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.bootstrap import geometric_mean, upper_bound
from benchmarks.distant_draft import DistantDraft
from benchmarks.emulated_pair import LIKE_A_GPU_PAIR, PairTimes, running_emulated
from benchmarks.results import Row
from benchmarks.speculation import EmulatedLoad, Run, compete, rate, ratios, round_words
from benchmarks.ways import AUTO, OFF
from outrider.testing.emulated import Agreement, Law

OUTPUT_TOKENS = 96
CELL_BAR = "95 % upper bound ≥ 0.97"
MEAN_BAR = "≥ 0.99"
SWITCH_BAR = "≤ 1"
SWITCHES_PER_S = 10.0
"""Switches are counted in so many seconds."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Where both ways compete: acceptance, round trip of the draft's hop, generations at once."""

    acceptance: float
    round_trip_s: float
    count: int

    @property
    def name(self) -> str:
        """As in the names of rows."""
        return f"a{self.acceptance * 100:.0f}_{self.round_trip_s * 1000:.0f}ms_{self.count}"


def _cells(
    acceptances: Sequence[float], round_trips_s: Sequence[float], counts: Sequence[int]
) -> Sequence[Cell]:
    """Sorted by what takes longest to change."""
    return [
        Cell(acceptance, round_trip_s, count)
        for round_trip_s, acceptance, count in product(round_trips_s, acceptances, counts)
    ]


GRID = _cells((0.05, 0.3, 0.6, 0.8, 0.95), (0.0, 0.005, 0.025, 0.1, 0.2), (1, 8, 32))
CORNERS = _cells((0.05, 0.95), (0.0, 0.2), (1, 8, 32))


@dataclass(frozen=True, slots=True)
class _Found:
    """One cell. `switches`: of speculation, in SWITCHES_PER_S."""

    ratios: Sequence[float]
    switches: float
    row: Row


def measure(
    *,
    cells: Sequence[Cell] = CORNERS,
    runs: int = 3,
    output_tokens: int = OUTPUT_TOKENS,
    law: Law = Law.SPREAD,
    times: PairTimes = LIKE_A_GPU_PAIR,
) -> Iterator[Row]:
    """A row `guard_…` for each cell, `guard_mean` and `guard_switches` of them all."""
    found = []
    with running_emulated(times) as pair:
        for cell in cells:
            found.append(_measure(pair, cell, law, times, runs=runs, output_tokens=output_tokens))
            yield found[-1].row
    yield from _sums(found)


def _measure(
    pair: DistantDraft, cell: Cell, law: Law, times: PairTimes, *, runs: int, output_tokens: int
) -> _Found:
    measured_s = pair.move(cell.round_trip_s)
    print(f"  {cell.name}, measured {measured_s * 1000:.1f} ms", file=sys.stderr, flush=True)
    load = EmulatedLoad(
        agreement=Agreement(acceptance=cell.acceptance, law=law),
        count=cell.count,
        output_tokens=output_tokens,
    )
    # The coordinator gets to know the new cell; what it had learnt elsewhere was right there.
    compete(pair.coordinator, {"auto": AUTO}, load, runs=1, first_edition=0)
    before = pair.client.status().policy.switches
    runs_of = compete(pair.coordinator, {"auto": AUTO, "alone": OFF}, load, runs=runs)
    switches = pair.client.status().policy.switches - before
    per_time = SWITCHES_PER_S * switches / sum(run.seconds for run in runs_of["auto"])
    return _found(
        cell,
        runs_of["auto"],
        runs_of["alone"],
        per_time,
        (
            f"round trip measured {measured_s * 1000:.1f} ms; {_law_words(law)}; {times.words}; "
            f"{output_tokens} tokens each"
        ),
    )


def _found(
    cell: Cell, auto: Sequence[Run], alone: Sequence[Run], switches: float, note: str
) -> _Found:
    each = ratios(auto, alone)
    bound = upper_bound(each)
    row = Row(
        f"guard_{cell.name}",
        rate(auto),
        "tokens/s",
        len(each),
        ratio=geometric_mean(each),
        against=f"target alone, {rate(alone):.1f} tokens/s",
        bar=CELL_BAR,
        note=f"95 % upper bound {bound:.3f}, ratios {min(each):.3f} to {max(each):.3f}; "
        f"acceptance {cell.acceptance:g}, {cell.count} at once; {switches:.1f} switches in "
        f"{SWITCHES_PER_S:g} s; {round_words(auto)}; {note}",
    )
    return _Found(each, switches, row)


def _sums(found: Sequence[_Found]) -> Iterator[Row]:
    means = [geometric_mean(one.ratios) for one in found]
    bounds = [upper_bound(one.ratios) for one in found]
    worst = min(range(len(found)), key=lambda place: bounds[place])
    yield Row(
        "guard_mean",
        geometric_mean(means),
        "ratio",
        len(found),
        ratio=geometric_mean(means),
        against="target alone, the geometric mean over cells",
        bar=MEAN_BAR,
        note=f"lowest 95 % upper bound {bounds[worst]:.3f} in {found[worst].row.name}; "
        f"{sum(bound < 0.97 for bound in bounds)} of {len(found)} cells below 0.97",
    )
    yield Row(
        "guard_switches",
        max(one.switches for one in found),
        f"switches in {SWITCHES_PER_S:g} s",
        len(found),
        bar=SWITCH_BAR,
        note="of the whole pool, in the cell that has most",
    )


def _law_words(law: Law) -> str:
    return "greedy" if law is Law.PEAKED else "temperature 1, rejection rule"
