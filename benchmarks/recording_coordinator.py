"""A coordinator that writes down each of its rounds.

`python -m benchmarks.recording_coordinator FILE --flag=value …`, with the flags of
`outrider serve coordinator`. The records are in FILE once it has stopped.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, pairwise
from pathlib import Path

import coordinator.decode as decode
from coordinator.main import serve_coordinator
from coordinator.statistics import SpeculationStatistics
from coordinator.worker_time import WorkerTime
from outrider.settings import CoordinatorSettings, load_settings


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round. Times in microseconds; `ended_us` by a clock of the coordinator's."""

    generation: int
    ended_us: float
    round_us: float
    model_us: float
    queue_us: float
    drafted: bool

    @property
    def hop_us(self) -> float:
        """The round's time less the forward and sampling time that both workers report."""
        return self.round_us - self.model_us


def read_records(path: Path) -> list[RoundRecord]:
    """The records of a coordinator that has stopped."""
    return [RoundRecord(**fields) for fields in json.loads(path.read_text())]


def cycles(records: Sequence[RoundRecord]) -> Iterator[tuple[float, RoundRecord]]:
    """Each round but a generation's first, with the time from the end of the one before to its own
    end, in microseconds: text and streaming included."""
    for before, record in pairwise(records):
        if before.generation == record.generation:
            yield record.ended_us - before.ended_us, record


def recording(records: list[RoundRecord]) -> type[SpeculationStatistics]:
    """Statistics that append each timed round to `records`."""

    generations = count()

    class RecordedStatistics(SpeculationStatistics):
        def __init__(self) -> None:
            super().__init__()
            self.generation = next(generations)

        def count_time(
            self, *, round_s: float, wait_s: float, target: WorkerTime, draft: WorkerTime
        ) -> None:
            ended_us = time.perf_counter() * 1e6
            super().count_time(round_s=round_s, wait_s=wait_s, target=target, draft=draft)
            spent = target + draft
            records.append(
                RoundRecord(
                    generation=self.generation,
                    ended_us=ended_us,
                    round_us=round_s * 1e6,
                    model_us=spent.model_s * 1e6,
                    queue_us=spent.queue_s * 1e6,
                    drafted=wait_s > 0.0,
                )
            )

    return RecordedStatistics


def main(arguments: Sequence[str]) -> int:
    """Serves until SIGTERM; the exit code."""
    path, *flags = arguments
    pairs = (flag.removeprefix("--").split("=", 1) for flag in flags)
    settings = load_settings(
        CoordinatorSettings, {name.replace("-", "_"): value for name, value in pairs}
    )
    records: list[RoundRecord] = []
    decode.SpeculationStatistics = recording(records)  # type: ignore[attr-defined]
    try:
        return asyncio.run(serve_coordinator(settings))
    finally:
        Path(path).write_text(json.dumps([asdict(record) for record in records]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
