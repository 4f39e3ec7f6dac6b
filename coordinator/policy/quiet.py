"""Moments in which no draft works, so that the target's own pace can be measured."""

from __future__ import annotations

from collections.abc import Callable

TOKENS = 3
"""Tokens that are decoded alone, and seen, in each."""
EVERY_S, RARELY_S = 30.0, 120.0
WORKED = 6
"""Steps that must have been seen with a draft at work before."""
LONGEST_S = 1.0
NEGLIGIBLE = 1.05
"""A slowdown by less is looked at rarely."""


class Quiet:
    """One schedule for all generations of a pool: they are quiet together."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due_at = clock()
        self._worked = 0
        self._began_at: float | None = None
        self._left = 0

    def now(self) -> bool:
        """Whether a generation is to let its draft rest; begins a moment that is due."""
        at = self._clock()
        if self._began_at is None and at >= self._due_at and self._worked >= WORKED:
            self._began_at, self._left = at, TOKENS
        if self._began_at is not None and at > self._began_at + LONGEST_S:
            self._end(EVERY_S)
        return self._began_at is not None

    def worked(self) -> None:
        """A step was seen with a draft at work: something to compare with."""
        self._worked += 1

    def seen(self, *, slowdown: float) -> None:
        """A token was decoded with the draft at rest."""
        self._left -= 1
        if self._began_at is not None and self._left <= 0:
            self._end(EVERY_S if slowdown > NEGLIGIBLE else RARELY_S)

    def _end(self, next_in_s: float) -> None:
        self._began_at = None
        self._worked = 0
        self._due_at = self._clock() + next_in_s
