"""A machine that two models may share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Machine:
    """`slowdown`: how much longer a step takes that begins while another is under way."""

    slowdown: float = 1.0
    _busy: int = 0

    @contextmanager
    def using(self) -> Iterator[float]:
        """For the time of a step; gives what the step is slowed down by."""
        factor = self.slowdown if self._busy else 1.0
        self._busy += 1
        try:
            yield factor
        finally:
            self._busy -= 1
