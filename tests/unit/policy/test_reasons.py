"""The word of a change names what changed, not what changed before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.draft_plan import Situation
from coordinator.policy.economics import Chances, Costs, Economics
from coordinator.policy.outlook import Outlook
from coordinator.policy.reasons import reason_for
from tests.unit.policy.traces import Trace, none_accepted
from tests.unit.policy.traces import all_accepted as right

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
COSTS = Costs(verify_s=0.042, row_s=0.0004, plain_s=0.04, token_s=0.004, round_trip_s=0.005)


def outlook(acceptance: float = 0.8, costs: Costs = COSTS) -> Outlook:
    survival = [acceptance**place for place in range(1, 17)]
    chances = Chances(survival=survival, match=acceptance)
    choice = Economics(costs, chances, ahead=False).best(LENGTHS)
    return Outlook(choice, costs, chances, LENGTHS, False)


CHANGES: list[tuple[str, Callable[[], Outlook]]] = [
    ("ACCEPTANCE", lambda: outlook(0.1)),
    ("ROUND_TRIP", lambda: outlook(costs=replace(COSTS, round_trip_s=0.2))),
    ("DRAFT_TIME", lambda: outlook(costs=replace(COSTS, token_s=0.05))),
    ("LOAD", lambda: outlook(costs=replace(COSTS, row_s=0.03, others=31.0, others_price=0.7))),
]


@pytest.mark.parametrize(("word", "now"), CHANGES)
def test_it_is_turned_off_for_what_changed(word: str, now: Callable[[], Outlook]) -> None:
    assert outlook().ratio > 1.0 > now().ratio
    assert reason_for(outlook(), now(), turned=True) == word


def test_a_little_more_load_does_not_hide_that_acceptance_fell() -> None:
    busier = replace(COSTS, verify_s=0.05, plain_s=0.046, row_s=0.001)
    assert reason_for(outlook(), outlook(0.2, busier), turned=True) == "ACCEPTANCE"


@pytest.mark.parametrize(
    ("word", "now"),
    [
        ("ACCEPTANCE", lambda: outlook(0.5)),
        ("DRAFT_TIME", lambda: outlook(costs=replace(COSTS, token_s=0.012))),
        ("LOAD", lambda: outlook(costs=replace(COSTS, row_s=0.008))),
        ("ROUND_TRIP", lambda: outlook(costs=replace(COSTS, round_trip_s=0.08))),
    ],
)
def test_another_length_is_chosen_for_what_changed(word: str, now: Callable[[], Outlook]) -> None:
    assert outlook().choice.length != now().choice.length
    assert reason_for(outlook(), now(), turned=False) == word


def test_each_change_has_a_word_of_its_own() -> None:
    trace = Trace()
    trace.turns(60, right)
    trace.policy.plan(Situation(offset=trace.offset, room=9, draft_ready=False))
    trace.turns(20, right)
    trace.turns(200, none_accepted)
    trace.turns(600, right)
    words = [change.reason.partition(":")[0] for change in trace.policy.changes]
    assert words[0] == "START"
    missing = words.index("DRAFT_MISSING")
    assert words[missing + 1] == "DRAFT_FOUND"
    off = next(at for at in range(missing + 2, len(words)) if not at_length(trace, at))
    assert words[off : off + 2] == ["ACCEPTANCE", "PROBE"]
    assert "PROBE" not in words[off + 2 :]


def at_length(trace: Trace, index: int) -> int:
    return trace.policy.changes[index].draft_length
