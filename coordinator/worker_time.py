"""Where a worker's time went, as it reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from outrider.v1 import common_pb2

MICROSECONDS_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """In seconds. `model_s`: forward and sampling. `queue_s`: before the forward."""

    model_s: float = 0.0
    queue_s: float = 0.0

    @classmethod
    def reported(cls, timings: common_pb2.Timings) -> Self:
        """From an answer."""
        return cls(
            (timings.forward_us + timings.sampling_us) / MICROSECONDS_PER_S,
            timings.queue_us / MICROSECONDS_PER_S,
        )

    @property
    def total_s(self) -> float:
        """Both together."""
        return self.model_s + self.queue_s

    def __add__(self, other: WorkerTime) -> WorkerTime:
        return WorkerTime(self.model_s + other.model_s, self.queue_s + other.queue_s)

    def __sub__(self, other: WorkerTime) -> WorkerTime:
        return WorkerTime(self.model_s - other.model_s, self.queue_s - other.queue_s)

    def within(self, seconds: float) -> WorkerTime:
        """As much of it as fits into that time, both in proportion."""
        share = min(1.0, seconds / self.total_s) if self.total_s else 0.0
        return WorkerTime(share * self.model_s, share * self.queue_s)
