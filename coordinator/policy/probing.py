"""When to look whether speculation would pay by now, while it is off."""

from __future__ import annotations

from collections.abc import Callable

SHORTEST_S, LONGEST_S = 0.5, 8.0
LARGEST_SHARE = 0.005
"""Probes may take this part of the time."""


class Probing:
    """One schedule for all generations of a pool; unsuccessful probes become rarer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._interval_s = SHORTEST_S
        self._due_at = clock()

    @property
    def due_in_s(self) -> float:
        """How long until the next probe; at least 0."""
        return max(0.0, self._due_at - self._clock())

    def begin(self, *, cost_s: float) -> None:
        """A generation probes now, which costs it that long."""
        wait_s = max(self._interval_s, cost_s / LARGEST_SHARE)
        self._due_at = self._clock() + wait_s
        self._interval_s = min(LONGEST_S, 2.0 * self._interval_s)

    def hurry(self) -> None:
        """Something has changed: probe again soon."""
        self._interval_s = SHORTEST_S
        self._due_at = min(self._due_at, self._clock() + SHORTEST_S)
