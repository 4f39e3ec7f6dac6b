"""How soon a simulated draft is heard of, as its coordinator measures it."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.draft_plan import DraftFacts

SMOOTHING = 0.2


@dataclass(slots=True)
class Pace:
    """Smoothed times in seconds: to the draft and back, and of a token."""

    round_trip_s: float = 0.0
    token_s: float = 0.0

    def drafted(self, facts: DraftFacts) -> None:
        """A proposal came."""
        spent = facts.model_s / max(1, facts.steps)
        self.token_s = _smoothed(self.token_s, spent)
        if facts.round_trip_s is not None:
            self.round_trip_s = _smoothed(self.round_trip_s, facts.round_trip_s)

    def due(self, now: float, *, missing: int) -> float:
        """When so many tokens that are asked for now are there."""
        return now + self.round_trip_s + missing * self.token_s


def _smoothed(value: float, latest: float) -> float:
    return value + (SMOOTHING if value else 1.0) * (latest - value)
