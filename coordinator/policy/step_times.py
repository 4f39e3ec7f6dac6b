"""What a step of the target takes while the draft rests, and while it works."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.policy.recent import Recent

STEP, SLOWDOWN_STEP = 0.15, 0.3
FRESH_S = 5.0
"""After that a time says nothing of the present load."""
ALIKE = 1.3
"""Batches that differ by no more than this factor are compared."""


class StepTimes:
    """Model time of a step, all draft tokens taken off, in seconds.

    Where both models share a machine they slow each other down. What the target would take alone
    must be known to tell whether speculation pays, so times are kept apart. How they differ is
    learnt where both were seen within seconds; the load of the moment is that of the latest step.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps = {True: Recent(STEP), False: Recent(STEP)}
        self._seen_at = {True: float("-inf"), False: float("-inf")}
        self._batch = {True: 1.0, False: 1.0}
        self._slowdown = Recent(SLOWDOWN_STEP)

    @property
    def known(self) -> bool:
        """A step has been seen."""
        return any(step.known for step in self._steps.values())

    @property
    def slowdown(self) -> float:
        """How much longer a step takes while the draft works; at least 1."""
        return max(1.0, self._slowdown.value(1.0))

    def seconds(self, *, draft_works: bool) -> float:
        """A step at the present load."""
        latest = self._seen_at[True] >= self._seen_at[False]
        seconds = self._steps[latest].value(0.0)
        if latest == draft_works:
            return seconds
        return seconds * self.slowdown if draft_works else seconds / self.slowdown

    def add(self, seconds: float, *, batch_size: int, draft_works: bool) -> None:
        """A step was seen."""
        now = self._clock()
        if now - self._seen_at[draft_works] > FRESH_S:
            self._steps[draft_works] = Recent(STEP)
        self._steps[draft_works].add(seconds)
        self._seen_at[draft_works] = now
        self._batch[draft_works] = batch_size
        if not draft_works and self._comparable(now):
            self._slowdown.add(self._steps[True].value(0.0) / max(1e-9, seconds))

    def _comparable(self, now: float) -> bool:
        if now - self._seen_at[True] > FRESH_S:
            return False
        low, high = sorted(self._batch.values())
        return high <= ALIKE * low
