"""Shows how far a distillation is. On standard error."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from outrider.cli.figures import number
from outrider.cli.moving_bar import MovingBar

if TYPE_CHECKING:
    from outrider.distill.curve import Point
    from outrider.distill.trials import Tried
    from outrider.distill.trying import VerifiedBothWays

PLAIN_EVERY_S = 60.0
"""Pause between two lines where there is no terminal."""


class DistillProgress:
    """One moving bar on a terminal; elsewhere a plain line now and then."""

    def __init__(self) -> None:
        self._bar = MovingBar("beginning")
        self._what = ""
        self._said_at = time.monotonic()

    @property
    def shown(self) -> AbstractContextManager[Any]:
        """While it is to be seen."""
        return self._bar.shown

    def stage(self, words: str) -> None:
        """Another part of the work begins."""
        self._say(f"{words[:1].upper()}{words[1:]} …")

    def done(self, what: str, tokens: int, of: int) -> None:
        """So many of its tokens are done."""
        if what != self._what:
            self._bar.begin(what, total=of)
        self._bar.move(f"{what}: {tokens} of {of}", completed=tokens, total=of)
        if not self._bar.on_terminal and time.monotonic() - self._said_at >= PLAIN_EVERY_S:
            self._say(f"{what}: {tokens} of {of} tokens")
        self._what = what

    def tried(self, tried: Tried) -> None:
        """A short teaching is over."""
        judged = tried.judgement
        layers = ", ".join(map(str, tried.layers)) or "as begun"
        self._say(
            f"layers {layers}, {tried.loss}: greedy agreement {judged.greedy.agreement:.3f}, "
            f"overlap {judged.drawn.overlap:.3f}, {judged.score:.3f} tokens a round"
        )

    def judged(self, point: Point) -> None:
        """The student was held against held-out texts."""
        judged = point.judgement
        self._say(
            f"{point.tokens} tokens: loss {number(point.loss, digits=3)}; held-out greedy "
            f"agreement {judged.greedy.agreement:.3f}, overlap {judged.drawn.overlap:.3f}, "
            f"{judged.score:.3f} tokens a round"
        )

    def verified(self, tokens: int, trials: VerifiedBothWays) -> None:
        """The student drafted for real generations."""
        self._say(
            f"{tokens} tokens: verified greedily {trials.greedy.acceptance:.3f} accepted, "
            f"{trials.greedy.tokens_per_round:.2f} tokens a round; at temperature 1 "
            f"{trials.drawn.acceptance:.3f}, {trials.drawn.tokens_per_round:.2f}"
        )

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        self._bar.say(line)
