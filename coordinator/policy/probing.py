"""When to look whether speculation would pay by now, while it is off."""

from __future__ import annotations

from collections.abc import Callable

SHORTEST_S, LONGEST_S = 0.5, 5.0
LARGEST_SHARE = 0.005
"""Probes may take this part of the time."""


class Probing:
    """One schedule for all generations of a pool; unsuccessful probes become rarer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._interval_s = SHORTEST_S
        self._cost_s = 0.0
        self._begun_at = self._due_at = self._earliest = clock()

    @property
    def due_in_s(self) -> float:
        """How long until the next probe; at least 0."""
        return max(0.0, self._due_at - self._clock())

    def begin(self, *, cost_s: float) -> None:
        """A generation probes now, which costs it that long."""
        now = self._begun_at = self._clock()
        self._cost_s = cost_s
        self._earliest = now + cost_s / LARGEST_SHARE
        self._due_at = max(self._earliest, now + self._interval_s)
        self._interval_s = min(LONGEST_S, 2.0 * self._interval_s)

    def earned(self, seconds: float) -> None:
        """What the probe has spared: so much less it cost. One that cost nothing is continued."""
        self._cost_s -= seconds
        if self._cost_s <= 0.0:
            self.at_once()
        else:
            self._earliest = self._begun_at + self._cost_s / LARGEST_SHARE

    def at_once(self) -> None:
        """There is a sign that it pays: probe now, whatever it costs."""
        self._interval_s = SHORTEST_S
        self._due_at = self._earliest = self._clock()

    def hurry(self) -> None:
        """Something has changed: probe again soon."""
        self._interval_s = SHORTEST_S
        self._due_at = max(self._earliest, min(self._due_at, self._clock() + SHORTEST_S))
