"""The line of works that wait for KV state."""

from __future__ import annotations

import pytest

from outrider.engine.admission import WaitingLine
from outrider.errors import Exhausted


@pytest.fixture
def line() -> WaitingLine[str]:
    return WaitingLine(longest=2, wait_s=10.0)


def test_an_empty_line(line: WaitingLine[str]) -> None:
    assert line.in_turn() == []
    assert line.deadline is None
    assert line.refuse(1e9) == []
    line.leave("nobody")


def test_who_lost_state_goes_first_then_by_arrival(line: WaitingLine[str]) -> None:
    line.enter("second", replay=False, arrived=2.0, now=5.0)
    line.enter("first", replay=False, arrived=1.0, now=5.0)
    line.enter("replay", replay=True, arrived=3.0, now=5.0)
    assert line.in_turn() == ["replay", "first", "second"]


def test_who_lost_state_is_passed_for_a_while_and_new_ones_never(line: WaitingLine[str]) -> None:
    line.enter("replay", replay=True, arrived=1.0, now=5.0)
    line.enter("new", replay=False, arrived=2.0, now=5.0)
    assert line.may_be_passed("replay", 14.9)
    assert not line.may_be_passed("replay", 15.0)
    assert not line.may_be_passed("new", 5.0)


def test_who_waits_too_long_is_refused(line: WaitingLine[str]) -> None:
    line.enter("a", replay=False, arrived=0.0, now=1.0)
    line.enter("b", replay=False, arrived=0.0, now=2.0)
    assert line.deadline == 11.0
    assert line.refuse(10.9) == []
    [(work, error)] = line.refuse(11.0)
    assert work == "a"
    assert isinstance(error, Exhausted)
    assert error.retry_after_s is not None
    assert "a" not in line
    assert line.deadline == 12.0
    assert [work for work, _ in line.refuse(12.0)] == ["b"]


def test_who_lost_state_waits_as_long_as_it_takes(line: WaitingLine[str]) -> None:
    line.enter("replay", replay=True, arrived=0.0, now=1.0)
    assert line.deadline is None
    assert line.refuse(1e9) == []
    line.enter("new", replay=False, arrived=0.0, now=2.0)
    assert line.deadline == 12.0
    assert [work for work, _ in line.refuse(12.0)] == ["new"]


def test_of_a_line_that_is_too_long_the_last_are_refused(line: WaitingLine[str]) -> None:
    for number, work in enumerate("abcd"):
        line.enter(work, replay=False, arrived=float(number), now=5.0)
    assert {work for work, _ in line.refuse(5.0)} == {"c", "d"}
    assert len(line) == 2


def test_who_lost_state_is_not_refused_for_the_length(line: WaitingLine[str]) -> None:
    for number, work in enumerate("abcd"):
        line.enter(work, replay=True, arrived=float(number), now=5.0)
    line.enter("new", replay=False, arrived=0.0, now=5.0)
    assert line.refuse(5.0) == []


def test_only_who_is_live_keeps_a_place(line: WaitingLine[str]) -> None:
    line.enter("a", replay=False, arrived=0.0, now=1.0)
    line.enter("b", replay=False, arrived=1.0, now=1.0)
    line.keep({"b"})
    assert line.in_turn() == ["b"]
