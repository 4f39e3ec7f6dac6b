"""The emulated pair as real processes, with stated times of their forwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.distant_draft import DistantDraft, running_with_distant_draft
from benchmarks.services import Programs, unpinned


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTimes:
    """How long forwards take: `step_s`, and `row_s` for each token in them."""

    step_s: float
    row_s: float

    @property
    def words(self) -> str:
        """For the note of a row."""
        return f"{self.step_s * 1000:g} ms and {self.row_s * 1000:g} ms per row"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Stated times of both models."""

    target: ForwardTimes
    draft: ForwardTimes

    @property
    def words(self) -> str:
        """For the note of a row."""
        return f"sleep-emulated: a target forward {self.target.words}, a draft's {self.draft.words}"

    @property
    def programs(self) -> Programs:
        """Services with these times; the coordinator is as it is by default."""
        return Programs(
            target=["benchmarks.emulated_worker", "target", *_arguments(self.target)],
            draft=["benchmarks.emulated_worker", "draft", *_arguments(self.draft)],
            coordinator=["outrider", "serve", "--end-with-input", "coordinator"],
        )


LIKE_A_GPU_PAIR = PairTimes(
    target=ForwardTimes(step_s=0.040, row_s=0.0004),
    draft=ForwardTimes(step_s=0.004, row_s=0.00005),
)
"""What a 70B target in 8 bits on two 80 GB cards needs to read its weights once (35 GB a card at
some 1.5 TB/s is 24 ms, with kernels and communication about 40), and a 1B draft on a small card.
A hundred rows double the target's step: there computing begins to take as long as reading."""


@contextmanager
def running_emulated(times: PairTimes = LIKE_A_GPU_PAIR) -> Iterator[DistantDraft]:
    """Serves until the block ends. Nothing is pinned: models sleep instead of working."""
    with running_with_distant_draft(times.programs, unpinned()) as services:
        yield services


def _arguments(times: ForwardTimes) -> tuple[str, str]:
    return str(times.step_s), str(times.row_s)
