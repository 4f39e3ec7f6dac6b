"""How fast one draft answers, learned from its answers by all generations that use it."""

from __future__ import annotations

WEIGHT = 0.2
"""Of the newest observation: a change is followed within some ten of them."""
OUTLIER = 4.0
"""A forward counts up to this many times the mean: one that read a long prompt, or a stall, says
little of the next."""


class DraftPace:
    """Running means, in seconds; 0 until something is known."""

    def __init__(self) -> None:
        self.token_s = 0.0
        """Of one forward of the draft, sampling and queueing included."""
        self.round_trip_s = 0.0
        """From new committed ids to the tokens below them, the draft's own time taken off."""

    def drafted(self, *, steps: int, seconds: float) -> None:
        """`steps` forwards took that long together."""
        each_s = seconds / steps
        if self.token_s:
            each_s = min(each_s, OUTLIER * self.token_s)
        self.token_s = _follow(self.token_s, each_s)

    def travelled(self, seconds: float) -> None:
        """One round trip took that long."""
        self.round_trip_s = _follow(self.round_trip_s, seconds)


def _follow(mean: float, seconds: float) -> float:
    return mean + WEIGHT * (seconds - mean) if mean else seconds
