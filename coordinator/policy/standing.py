"""Whether to speculate, decided with some reluctance to change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from coordinator.policy.economics import Chances, Economics
from coordinator.policy.outlook import Outlook

ON_MARGIN, OFF_MARGIN = 1.05, 1.0
"""How much better than the target alone it must be to begin, and to go on."""
RELUCTANCE = 0.05
"""Added to what is needed to begin for each recent change."""
RECENT_S = 20.0
MOST_OTHERS = 8.0


class Standing:
    """On or off. It pays to begin when it is clearly better, and to stop when it is worse."""

    def __init__(self, clock: Callable[[], float], *, on: bool) -> None:
        self.on = on
        self._clock = clock
        self._changed_at: deque[float] = deque(maxlen=8)

    @property
    def recent_changes(self) -> int:
        """How often it changed lately."""
        since = self._clock() - RECENT_S
        return sum(at > since for at in self._changed_at)

    def judge(self, outlook: Outlook, *, alone: bool = False) -> bool:
        """Decides anew; whether that changed it.

        `alone`: the others of its batch do without drafts, and each step would wait for this one.
        """
        costs = outlook.costs
        ratio = outlook.rate / outlook.plain_rate
        needed = OFF_MARGIN if self.on else ON_MARGIN + RELUCTANCE * self.recent_changes
        if alone:
            hop_s = costs.verify_s - costs.plain_s
            needed += min(costs.others, MOST_OTHERS) * hop_s / costs.plain_s
        if (ratio > needed) == self.on:
            return False
        self.on = not self.on
        self._changed_at.append(self._clock())
        return True


def reason_against(outlook: Outlook, *, ahead: bool) -> str:
    """Why it does not pay: the first thing without which it would."""
    costs, chances = outlook.costs, outlook.chances
    for word, other in (
        ("ROUND_TRIP", replace(costs, round_trip_s=0.0)),
        ("LOAD", replace(costs, others_price=0.0, row_s=0.0, late_s=0.0)),
        ("DRAFT_TIME", replace(costs, token_s=0.0)),
    ):
        best = Economics(other, replace(chances), ahead=ahead).best(_lengths(chances))
        if best.rate * outlook.factor > outlook.plain_rate:
            return word
    return "ACCEPTANCE"


def _lengths(chances: Chances) -> range:
    return range(1, len(chances.survival) + 1)


def in_figures(outlook: Outlook) -> str:
    """The figures that a change rests on."""
    costs = outlook.costs
    return (
        f"{outlook.rate:.1f} tokens/s expected, {outlook.plain_rate:.1f} alone; "
        f"first draft token accepted {outlook.survival(1):.2f}, "
        f"draft {costs.token_s * 1000:.1f} ms a token and {costs.round_trip_s * 1000:.1f} ms away, "
        f"verification {costs.verify_s * 1000:.1f} ms + {costs.row_s * 1000:.2f} ms a token"
    )
