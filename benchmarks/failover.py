"""How long a stream stands still when one of its workers is in trouble.

Tiny models in float32 as real processes: two targets, two drafts, one coordinator. One generation
at a time; at a random moment the worker that serves it is troubled. Its stall is the longest time
without a chunk from then on.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results import Row
from outrider.testing import trouble
from outrider.testing.fleet import Fleet, Replica
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request
from outrider.testing.trouble import Fault
from outrider.testing.watched import Ask, Watched, watching

TRIALS = 12
TOKENS = 500
LONGEST_S = 8.0
"""Of a fault: by then a silent target has been left."""
BY_MEASUREMENT = {"draft_length": "auto"}
"""Waits for a draft are then as long as they have been worth; with a fixed length they are as long
as the setting says."""
BARS = {"draft": "at most 250 ms", "target": "0 failed"}


@dataclass(slots=True)
class Trials:
    """What came of one kind of trouble."""

    stalls_ms: list[float] = field(default_factory=list)
    failed: int = 0
    moved: int = 0

    def add(self, watched: Watched, since: float) -> None:
        """Takes a generation that was troubled at `since`."""
        self.stalls_ms.append(watched.longest_stall_s(since) * 1000)
        self.failed += watched.error is not None or len(watched.token_ids) != TOKENS
        if watched.summary is not None:
            statistics = watched.summary.speculation
            self.moved += bool(statistics.target_moves or statistics.draft_moves)

    def row(self, name: str, *, calm_ms: float, bar: str) -> Row:
        """The figures."""
        stalls = sorted(self.stalls_ms)
        middle = stalls[len(stalls) // 2]
        return Row(
            f"failover_{name}",
            middle,
            "ms",
            len(stalls),
            ratio=middle / calm_ms,
            against="the longest stall without trouble",
            bar=bar,
            note=f"longest stall of a stream; p99 {stalls[int(0.99 * len(stalls))]:.0f} ms; "
            f"{self.failed} failed, {self.moved} moved; tiny models in float32, two targets, two "
            f"drafts, {TOKENS} tokens",
        )


def measure(*, trials: int = TRIALS, faults: Sequence[Fault] = tuple(Fault)) -> Iterator[Row]:
    """Stalls by pool and kind of trouble, and without any."""
    yield from asyncio.run(_measure(trials, faults))


async def _measure(trials: int, faults: Sequence[Fault]) -> list[Row]:
    rolls = random.Random(1)
    async with _asking() as (fleet, ask):
        calm = Trials()
        for number in range(2 * trials):
            since = time.monotonic()
            watched = await ask(tiny_request(number, tokens=TOKENS))
            # From the first chunk on: before it there is no stream that could stall.
            calm.add(watched, watched.times[1] if len(watched.times) > 1 else since)
        calm_ms = sorted(calm.stalls_ms)[len(calm.stalls_ms) // 2]
        rows = [calm.row("calm", calm_ms=calm_ms, bar="")]
        for pool in (fleet.drafts, fleet.targets):
            for fault in faults:
                tried = Trials()
                for number in range(trials):
                    await _troubled(fleet, pool, fault, ask, rolls, number, tried)
                role = pool[0].process.name
                rows.append(tried.row(f"{role}_{fault}", calm_ms=calm_ms, bar=BARS[role]))
                print(f"  {rows[-1].name}: {rows[-1].median:.0f} ms", file=sys.stderr, flush=True)
    return rows


async def _troubled(
    fleet: Fleet,
    pool: Sequence[Replica],
    fault: Fault,
    ask: Ask,
    rolls: random.Random,
    number: int,
    tried: Trials,
) -> None:
    """One generation whose worker is troubled on the way."""
    asked = asyncio.create_task(
        ask(tiny_request(number, tokens=TOKENS, seed=number if number % 2 else None))
    )
    await asyncio.sleep(rolls.uniform(0.2, 0.8))
    worker = await _in_use(fleet, pool)
    since = time.monotonic()
    await trouble.begin(fault, worker, rolls)
    await asyncio.wait([asked], timeout=LONGEST_S)
    await trouble.end(fault, worker)
    tried.add(await asked, since)
    await fleet.usable()


async def _in_use(fleet: Fleet, pool: Sequence[Replica]) -> Replica:
    """The worker of the pool that the generation is with; the first where it is with none."""
    status = await fleet.status()
    busy = {one.address for one in (*status.targets, *status.drafts) if one.generations}
    return next((worker for worker in pool if worker.way.address in busy), pool[0])


@asynccontextmanager
async def _asking() -> AsyncIterator[tuple[Fleet, Ask]]:
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        async with (
            tiny_fleet(Path(folder), coordinator=BY_MEASUREMENT) as fleet,
            watching(fleet.addresses[0]) as ask,
        ):
            yield fleet, ask
