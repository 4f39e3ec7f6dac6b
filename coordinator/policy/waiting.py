"""How long a round waits for one more draft token.

Waiting costs time, which is worth the rate of output that the generation has in the long run. What
is decided here depends on counts and clocks alone, never on a token.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.policy.outlook import Outlook

SLACK = 1.5
SLACK_S = 0.003
"""A token that is late is waited for a little longer than it should take."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a round stands. `tokens`: draft tokens that are there; `waited_s`: how long it has
    waited; `next_in_s`: when the next token should come, and `together` how many with it."""

    tokens: int
    waited_s: float
    next_in_s: float
    together: int


def worth_waiting(outlook: Outlook, moment: Moment) -> bool:
    """Whether one more token earns more than the wait for it costs."""
    costs, choice = outlook.costs, outlook.choice
    tokens = moment.tokens
    if tokens == 0:
        return not _plain_is_better(outlook, moment)
    gain = outlook.survival(tokens + 1) - costs.others_price
    # A token that comes later is not lost: it is judged in the next round, if that is reached.
    miss_earlier = outlook.survival(tokens + 1) - outlook.survival(tokens + 2)
    loss = miss_earlier * (1.0 - outlook.chances.hit) * choice.lead
    delay_s = _delay_s(outlook, moment, moment.next_in_s)
    return gain - loss > choice.rate * (delay_s + costs.row_s)


def _plain_is_better(outlook: Outlook, moment: Moment) -> bool:
    """Whether to decode one token alone while the draft is at work.

    With probability m its tokens are still valid then, and so much less is left to wait; else it
    begins anew, and what it had done is lost.
    """
    costs, choice = outlook.costs, outlook.choice
    if choice.lead == 0.0 and choice.plain == 0:
        return False
    whole_s = costs.round_trip_s + choice.first * costs.token_s
    one_by_one = max(0, choice.first - moment.together)
    left_s = moment.next_in_s + one_by_one * costs.token_s
    match = outlook.chances.match
    saved_s = match * min(costs.verify_s, _delay_s(outlook, moment, left_s))
    lost_s = (1.0 - match) * max(0.0, whole_s - left_s)
    return 1.0 + choice.rate * (saved_s - lost_s - costs.verify_s) > 0.0


def _delay_s(outlook: Outlook, moment: Moment, wait_s: float) -> float:
    """By how much a further wait puts off the verdict."""
    delay_s = outlook.costs.delay_s
    return delay_s(moment.waited_s + wait_s) - delay_s(moment.waited_s)


def patience_for(next_in_s: float) -> float:
    """How long to wait for a token that is expected in `next_in_s`."""
    return SLACK * next_in_s + SLACK_S
