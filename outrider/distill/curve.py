"""How a draft became better: what was learnt from so far, and how good that made it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.whole_file import write_whole
from outrider.distill.errors import DistillError
from outrider.distill.judging import Judgement, from_dict


@dataclass(frozen=True, slots=True)
class Point:
    """After so many `tokens`; `loss` is the mean of the batches since the point before, if there
    were any."""

    tokens: int
    loss: float | None
    judgement: Judgement

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "tokens": self.tokens,
            "loss": None if self.loss is None else round(self.loss, 5),
            "judgement": self.judgement.as_dict(),
        }


def point_of(values: dict[str, Any]) -> Point:
    """What `as_dict` gave."""
    return Point(values["tokens"], values["loss"], from_dict(values["judgement"]))


def write_curve(path: Path, points: Sequence[Point]) -> None:
    """All points, a line of JSON each. Raises DistillError."""
    try:
        write_whole(path, "".join(json.dumps(point.as_dict()) + "\n" for point in points))
    except OSError as error:
        raise DistillError(f"{path}: cannot be written: {error.strerror}") from error


def gains(points: Sequence[Point], *, within: int, least: float) -> bool:
    """Whether the score has risen by `least` of itself within the last so many points."""
    if len(points) <= within:
        return True
    before = max(point.judgement.score for point in points[:-within])
    return max(point.judgement.score for point in points[-within:]) >= before * (1.0 + least)
