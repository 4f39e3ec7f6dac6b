"""Goes through the places of a plan and keeps what was measured, however it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.bench.cell import Cell, Place, cell
from outrider.bench.load import Load
from outrider.bench.plan import BenchPlan
from outrider.bench.setting import Setting
from outrider.bench.turn import Turn, order_of_turn, requests_of_turn

WARM_UP_TOKENS = 32


class MeasurementListener(Protocol):
    """Is told how far it is."""

    def place_begins(self, place: Place) -> None:
        """A place's warm-up begins."""

    def stint_begins(self, place: Place, setting: Setting, *, share: float) -> None:
        """A setting is about to be measured; `share` (0 to 1) of the whole plan is behind."""


@dataclass(slots=True)
class Measurements:
    """Whole turns only: in each, every setting had the same requests."""

    settings: Sequence[Setting]
    turns: dict[Place, list[Turn]] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """The figures of every setting at every place that has a turn."""
        return [
            cell(place, setting, turns)
            for place, turns in self.turns.items()
            for setting in self.settings
        ]


async def measure(
    plan: BenchPlan,
    load: Load,
    *,
    into: Measurements,
    listener: MeasurementListener,
    set_round_trip: Callable[[float], None],
) -> None:
    """Measures all places; `into` has every turn as soon as it is complete.

    `set_round_trip` takes milliseconds. Raises AioRpcError or BrokenOutputError.
    """
    places = list(plan.places())
    read: set[int] = set()
    for behind, place in enumerate(places):
        if place.round_trip_ms is not None:
            set_round_trip(place.round_trip_ms)
        listener.place_begins(place)
        await _warm_up(plan, load, place, read)
        started, share = time.perf_counter(), 0.0
        turns: list[Turn] = []
        while share < 1.0:
            numbers = requests_of_turn(len(turns), concurrency=place.concurrency)
            await _read(load, numbers, read)
            stints = []
            for setting in order_of_turn(len(turns), plan.settings):
                listener.stint_begins(place, setting, share=(behind + share) / len(places))
                stints.append(await load.stint(setting, numbers, tokens=plan.max_new_tokens))
            turns.append(Turn(len(turns), tuple(stints)))
            into.turns[place] = turns
            share = plan.budget.spent(
                turns=len(turns),
                concurrency=place.concurrency,
                seconds=time.perf_counter() - started,
            )


async def _warm_up(plan: BenchPlan, load: Load, place: Place, read: set[int]) -> None:
    """Every setting once: models, connections and the coordinator's policy know this load."""
    numbers = requests_of_turn(0, concurrency=place.concurrency)
    await _read(load, numbers, read)
    for setting in plan.settings:
        await load.stint(setting, numbers, tokens=min(WARM_UP_TOKENS, plan.max_new_tokens))


async def _read(load: Load, numbers: Sequence[int], read: set[int]) -> None:
    """Lets the workers read prompts that are new to them: the first setting that brings one would
    otherwise pay for it, and the others find it in the prefix cache."""
    new = [number for number in numbers if load.prompt_of(number) not in read]
    if new:
        await load.read(new)
        read.update(load.prompt_of(number) for number in new)
