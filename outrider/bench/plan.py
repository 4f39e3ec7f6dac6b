"""What a benchmark does, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.bench.cell import Place
from outrider.bench.setting import TARGET_ONLY, Setting
from outrider.bench.statistics import FEWEST_SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much is measured at each place: what is spent first ends it. One of both is given."""

    seconds: float | None = None
    """So long, and at least as many turns as an interval takes."""
    requests: int | None = None
    """So many for each setting."""

    def spent(self, *, turns: int, concurrency: int, seconds: float) -> float:
        """Which share of it: from 1 on there is nothing left."""
        shares = []
        if self.requests is not None:
            shares.append(turns * concurrency / self.requests)
        if self.seconds is not None:
            enough = turns / FEWEST_SAMPLES if self.requests is None else 1.0
            shares.append(min(seconds / self.seconds, enough))
        return max(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """A whole benchmark."""

    speculating: Sequence[Setting]
    """What is compared with the target alone."""
    concurrencies: Sequence[int]
    round_trips_ms: Sequence[float]
    """Added to the draft's hop. Empty: there is no proxy."""
    max_new_tokens: int
    budget: Budget

    @property
    def settings(self) -> list[Setting]:
        """All that is measured, the target alone first."""
        return [TARGET_ONLY, *self.speculating]

    def places(self) -> Iterator[Place]:
        """Where it is measured, in order."""
        for round_trip_ms in self.round_trips_ms or (None,):
            for concurrency in self.concurrencies:
                yield Place(concurrency=concurrency, round_trip_ms=round_trip_ms)
