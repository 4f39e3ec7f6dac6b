"""Why speculation is done as it is, in words and figures."""

from __future__ import annotations

from dataclasses import replace

from coordinator.policy.outlook import Outlook


def reason_against(outlook: Outlook) -> str:
    """Why it does not pay, as a stable word: what it would pay best without."""
    costs = outlook.costs
    without = {
        "ROUND_TRIP": replace(costs, round_trip_s=0.0),
        "LOAD": replace(costs, others_price=0.0, row_s=0.0, late_s=0.0),
        "DRAFT_TIME": replace(costs, token_s=0.0),
    }
    ratios = {word: outlook.with_costs(other).ratio for word, other in without.items()}
    word = max(ratios, key=lambda one: ratios[one])
    return word if ratios[word] > 1.0 else "ACCEPTANCE"


def reason_for(before: Outlook, now: Outlook, *, turned: bool) -> str:
    """What led from one outlook to the other, as a stable word: the one that goes most of the way
    by itself. `turned`: to decoding alone; else to another draft length."""
    then, costs = before.costs, now.costs
    load = replace(costs, round_trip_s=then.round_trip_s, token_s=then.token_s)
    ways = {
        "ACCEPTANCE": replace(before, chances=now.chances, factor=now.factor).with_costs(then),
        "LOAD": before.with_costs(load),
        "ROUND_TRIP": before.with_costs(replace(then, round_trip_s=costs.round_trip_s)),
        "DRAFT_TIME": before.with_costs(replace(then, token_s=costs.token_s)),
    }
    if turned:
        return min(ways, key=lambda word: ways[word].ratio)
    return min(ways, key=lambda word: abs(ways[word].choice.length - now.choice.length))


def in_figures(outlook: Outlook) -> str:
    """What a change rests on."""
    costs = outlook.costs
    return (
        f"{outlook.rate:.1f} tokens/s expected, {outlook.plain_rate:.1f} alone; "
        f"first draft token accepted {outlook.survival(1):.2f}, "
        f"draft {costs.token_s * 1000:.1f} ms a token and {costs.round_trip_s * 1000:.1f} ms away, "
        f"verification {costs.verify_s * 1000:.1f} ms + {costs.row_s * 1000:.2f} ms a token"
    )
