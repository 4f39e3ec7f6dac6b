"""How long a round waits for one more draft token.

Waiting costs time, which is worth the rate of output that the generation has in the long run. What
is decided here depends on counts and clocks alone, never on a token.
"""

from __future__ import annotations

from coordinator.policy.outlook import Outlook

SLACK = 1.5
SLACK_S = 0.003
"""A token that is late is waited for a little longer than it should take."""


def worth_waiting(outlook: Outlook, *, tokens: int, next_in_s: float) -> bool:
    """Whether one more token, expected in `next_in_s`, earns more than the wait for it costs."""
    if tokens == 0:
        return not _plain_is_better(outlook, next_in_s)
    costs, choice = outlook.costs, outlook.choice
    gain = outlook.survival(tokens + 1) - costs.others_price
    # A token that comes later is not lost: it is judged in the next round, if that is reached.
    miss_earlier = outlook.survival(tokens + 1) - outlook.survival(tokens + 2)
    loss = miss_earlier * (1.0 - outlook.chances.hit) * choice.lead
    return gain - loss > choice.rate * (costs.delay_s(next_in_s) + costs.row_s)


def _plain_is_better(outlook: Outlook, next_in_s: float) -> bool:
    """Whether to decode one token alone while the draft is at work.

    With probability m its tokens are still valid then, and so much less is left to wait; else it
    begins anew, and what it had done is lost.
    """
    costs, choice = outlook.costs, outlook.choice
    if choice.lead == 0.0 and choice.plain == 0:
        return False
    whole_s = costs.round_trip_s + choice.first * costs.token_s
    match = outlook.chances.match
    saved_s = match * min(costs.verify_s, costs.delay_s(next_in_s))
    lost_s = (1.0 - match) * max(0.0, whole_s - next_in_s)
    return 1.0 + choice.rate * (saved_s - lost_s - costs.verify_s) > 0.0


def patience_for(next_in_s: float) -> float:
    """How long to wait for a token that is expected in `next_in_s`."""
    return SLACK * next_in_s + SLACK_S
