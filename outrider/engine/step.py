"""One step of the model thread, as those see it who learn from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outrider.engine.model import Chunk
from outrider.engine.step_time import StepLoad, attended_by


@dataclass(frozen=True, slots=True)
class Step:
    """What one step read, how long it took, and how many output tokens it gave."""

    load: StepLoad
    seconds: float
    outputs: int


def load_of(chunks: Iterable[Chunk]) -> StepLoad:
    """What a forward over these chunks is to read."""
    counts = [(len(chunk.token_ids), len(chunk.sequence.prefix)) for chunk in chunks]
    attended = sum(attended_by(count, behind=behind) for count, behind in counts)
    return StepLoad(sum(count for count, _ in counts), attended)
