"""Waiting a moment for the generations that were just answered.

Without it generations fall into groups that take turns: whoever comes back first starts the next
step, and the others miss it. Steps of half the size then take almost as long as whole ones.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

SHARE_OF_STEP = 0.25
"""No longer wait than this part of a step."""
REMEMBERED = 32
QUANTILE = 0.97


class Gathering(Protocol):
    """How long the next step waits. Times are seconds of one clock; a stream is a generation."""

    @property
    def until(self) -> float:
        """The next step begins no earlier than this."""
        ...

    def answered(self, stream: str, *, now: float) -> None:
        """This stream is given its answer at this moment. It may be back before the step ends."""
        ...

    def step_ended(self, *, step_s: float) -> None:
        """All answers of a step of that length are given."""
        ...

    def arrived(self, stream: str, *, now: float) -> None:
        """A job of this stream has come."""
        ...

    def forget(self, stream: str) -> None:
        """This stream has ended."""
        ...


class NoGathering:
    """Each step begins with what is there."""

    until = -math.inf

    def answered(self, stream: str, *, now: float) -> None:
        """Nothing to do."""

    def step_ended(self, *, step_s: float) -> None:
        """Nothing to do."""

    def arrived(self, stream: str, *, now: float) -> None:
        """Nothing to do."""

    def forget(self, stream: str) -> None:
        """Nothing to do."""


class WaitForReturns:
    """Waits for the streams just answered that use to come back within a part of a step.

    The wait ends once all of them are back, when a stream comes that was never here, and at the
    latest when the slowest of them should have been back.
    """

    def __init__(self) -> None:
        self.until = -math.inf
        self._just_answered: set[str] = set()
        self._awaited: set[str] = set()
        self._away_since: dict[str, float] = {}
        self._returns: dict[str, deque[float]] = {}

    def answered(self, stream: str, *, now: float) -> None:
        """From now on it is away."""
        self._away_since[stream] = now
        self._just_answered.add(stream)

    def step_ended(self, *, step_s: float) -> None:
        """Decides for whom the next step waits, and how long."""
        longest = SHARE_OF_STEP * step_s
        answered, self._just_answered = self._just_answered, set()
        self._stop()
        for stream in answered:
            usual = self._usual_return(stream)
            if usual <= longest:
                self._awaited.add(stream)
                self.until = max(self.until, self._away_since[stream] + usual)

    def arrived(self, stream: str, *, now: float) -> None:
        """Notes how long the stream was away."""
        since = self._away_since.pop(stream, None)
        if since is not None:
            self._returns.setdefault(stream, deque(maxlen=REMEMBERED)).append(now - since)
            self._leave(stream)
        elif stream not in self._returns:
            self._stop()

    def forget(self, stream: str) -> None:
        """Waits for it no more."""
        self._away_since.pop(stream, None)
        self._returns.pop(stream, None)
        self._leave(stream)

    def _usual_return(self, stream: str) -> float:
        """A high quantile of the last times it took to come back; infinite if it never did."""
        times = self._returns.get(stream)
        return sorted(times)[int(QUANTILE * (len(times) - 1))] if times else math.inf

    def _leave(self, stream: str) -> None:
        self._just_answered.discard(stream)
        self._awaited.discard(stream)
        if not self._awaited:
            self._stop()

    def _stop(self) -> None:
        self._awaited.clear()
        self.until = -math.inf
