"""Whether to speculate, decided with some reluctance to change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

ON_MARGIN, OFF_MARGIN = 1.04, 1.0
"""How much better than the target alone it must be to begin, and to go on."""
RELUCTANCE_ON, RELUCTANCE_OFF = 0.025, 0.015
"""What recent changes add to what is needed to begin, by the square of their number, and what each
takes off what is needed to go on: once may be by chance, often is not."""
RECENT_S = 30.0
COUNTED = 4
RESTLESS, RESTLESS_S = 2, 20.0
"""After so many changes in so many seconds it stays off: one in 10 s, in the long run."""


class Standing:
    """On or off. It pays to begin when it is clearly better, and to stop when it is worse."""

    def __init__(self, clock: Callable[[], float], *, on: bool) -> None:
        self.on = on
        self.changes = 0
        self._clock = clock
        self._changed_at: deque[float] = deque(maxlen=COUNTED)

    @property
    def recent_changes(self) -> int:
        """How often it changed lately; a few at most."""
        return self._changes_within(RECENT_S)

    def judge(self, ratio: float, *, burden: float = 0.0) -> bool:
        """Decides anew; whether that changed it.

        `ratio`: rate with drafts ÷ rate without. `burden`: what is needed beside, since others
        would suffer.
        """
        recent = self.recent_changes
        needed = ON_MARGIN + RELUCTANCE_ON * recent**2
        if self.on:
            needed = OFF_MARGIN - RELUCTANCE_OFF * recent
        if (ratio > needed + burden) == self.on:
            return False
        if not self.on and self._changes_within(RESTLESS_S) >= RESTLESS:
            return False
        self.on = not self.on
        self.changes += 1
        self._changed_at.append(self._clock())
        return True

    def _changes_within(self, seconds: float) -> int:
        since = self._clock() - seconds
        return sum(at > since for at in self._changed_at)
