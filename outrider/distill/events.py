"""What a distillation tells while it goes on."""

from __future__ import annotations

from typing import Protocol

from outrider.distill.curve import Point
from outrider.distill.trials import Tried
from outrider.distill.trying import VerifiedBothWays


class Events(Protocol):
    """Hears of each step."""

    def stage(self, words: str) -> None:
        """Another part of the work begins."""
        ...

    def done(self, what: str, tokens: int, of: int) -> None:
        """So many of its tokens are done."""
        ...

    def tried(self, tried: Tried) -> None:
        """A short teaching is over."""
        ...

    def judged(self, point: Point) -> None:
        """The student was held against held-out texts."""
        ...

    def verified(self, tokens: int, trials: VerifiedBothWays) -> None:
        """The student, after so many tokens, drafted for real generations."""
        ...
