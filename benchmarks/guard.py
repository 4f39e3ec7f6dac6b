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
WARM_UPS = 2
LOWEST = 0.97
CELL_BAR = f"95 % upper bound ≥ {LOWEST:g}"
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
    """What both ways did in one cell. `switches`: of speculation, in SWITCHES_PER_S."""

    cell: Cell
    measured_s: float
    auto: Sequence[Run]
    alone: Sequence[Run]
    switches: float

    @property
    def ratios(self) -> list[float]:
        """Run by run."""
        return ratios(self.auto, self.alone)

    @property
    def bound(self) -> float:
        """The ratio is below it, with 95 % confidence."""
        return upper_bound(self.ratios)

    def row(self, name: str, note: str) -> Row:
        """Of this cell."""
        each = self.ratios
        return Row(
            f"{name}_{self.cell.name}",
            rate(self.auto),
            "tokens/s",
            len(each),
            ratio=geometric_mean(each),
            against=f"target alone, {rate(self.alone):.1f} tokens/s",
            bar=CELL_BAR,
            note=f"95 % upper bound {self.bound:.3f}, ratios {min(each):.3f} to {max(each):.3f}; "
            f"acceptance {self.cell.acceptance:g}, round trip measured "
            f"{self.measured_s * 1000:.1f} ms, {self.cell.count} at once; {self.switches:.1f} "
            f"switches in {SWITCHES_PER_S:g} s; {round_words(self.auto)}; {note}",
        )


def measure(
    *,
    name: str = "guard",
    cells: Sequence[Cell] = CORNERS,
    runs: int = 3,
    output_tokens: int = OUTPUT_TOKENS,
    law: Law = Law.SPREAD,
    times: PairTimes = LIKE_A_GPU_PAIR,
) -> Iterator[Row]:
    """A row `NAME_a5_25ms_8` for each cell, and `NAME_mean` and `NAME_switches` of them all."""
    sampling = "greedy" if law is Law.PEAKED else "temperature 1, rejection rule"
    note = f"{output_tokens} tokens each, {sampling}; {times.words}"
    found = []
    with running_emulated(times) as services:
        for cell in cells:
            load = EmulatedLoad(
                agreement=Agreement(acceptance=cell.acceptance, law=law),
                count=cell.count,
                output_tokens=output_tokens,
            )
            found.append(_measure(services, cell, load, runs))
            yield found[-1].row(name, note)
    yield from _sums(name, found)


def _measure(services: DistantDraft, cell: Cell, load: EmulatedLoad, runs: int) -> _Found:
    measured_s = services.move(cell.round_trip_s)
    print(f"  {cell.name}, measured {measured_s * 1000:.1f} ms", file=sys.stderr, flush=True)
    # The coordinator gets to know the new cell; what it had learnt elsewhere was right there.
    compete(services.coordinator, {"auto": AUTO}, load, runs=WARM_UPS, first_edition=0)
    before = services.client.status().policy.switches
    ways = {"auto": AUTO, "alone": OFF}
    runs_of = compete(services.coordinator, ways, load, runs=runs, first_edition=WARM_UPS)
    switches = services.client.status().policy.switches - before
    seconds = sum(run.seconds for run in runs_of["auto"])
    return _Found(
        cell, measured_s, runs_of["auto"], runs_of["alone"], SWITCHES_PER_S * switches / seconds
    )


def _sums(name: str, found: Sequence[_Found]) -> Iterator[Row]:
    mean = geometric_mean([geometric_mean(one.ratios) for one in found])
    worst = min(found, key=lambda one: one.bound)
    yield Row(
        f"{name}_mean",
        mean,
        "of target alone",
        len(found),
        ratio=mean,
        against="the target alone, the geometric mean over cells",
        bar=MEAN_BAR,
        note=f"lowest 95 % upper bound {worst.bound:.3f} in {worst.cell.name}; "
        f"{sum(one.bound < LOWEST for one in found)} of {len(found)} cells below {LOWEST:g}",
    )
    yield Row(
        f"{name}_switches",
        max(one.switches for one in found),
        f"switches in {SWITCHES_PER_S:g} s",
        len(found),
        bar=SWITCH_BAR,
        note="of the whole pool, in the cell that has most",
    )
