"""Waiting for a draft: the bell, the pauses, and when its next token may come."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from opentelemetry.trace import INVALID_SPAN

from coordinator import backoff
from coordinator.backoff import Backoff
from coordinator.bell import Bell
from coordinator.draft_pace import DraftPace
from coordinator.draft_rounds import MAX_UNANSWERED, AskedRound, AskedRounds
from coordinator.tracing import DraftTrace
from coordinator.worker_time import WorkerTime
from outrider.v1 import common_pb2


def asked(number: int, *, due_s: float = 1.0, idle: bool = True) -> AskedRound:
    return AskedRound(
        number, committed_length=number, due_s=due_s, idle=idle, trace=DraftTrace(INVALID_SPAN)
    )


async def test_a_bell_wakes_the_one_who_waits() -> None:
    bell = Bell()
    bell.ring()
    assert not await bell.wait(0.001)
    asyncio.get_running_loop().call_later(0.001, bell.ring)
    assert await bell.wait(5.0)
    bell.ring()


async def test_one_who_waits_may_leave() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.wait(5.0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bell.ring()


def test_pauses_double_up_to_a_limit() -> None:
    now = 100.0
    pauses = Backoff(lambda: now)
    assert pauses.over
    for expected in (0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0):
        pauses.failed()
        now += expected - 0.01
        assert not pauses.over
        now += 0.02
        assert pauses.over
    pauses.succeeded()
    pauses.failed()
    now += backoff.FIRST_S
    assert pauses.over


def test_what_is_late_is_late_by_as_much_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    rounds = AskedRounds()
    assert rounds.next_in_s == math.inf
    rounds.ask(AskedRound(1, 1, 1.0, True, DraftTrace(INVALID_SPAN), now), continues=False)
    assert rounds.next_in_s == pytest.approx(1.0)
    now += 3.0
    assert rounds.next_in_s == pytest.approx(2.0)
    rounds.end(1)
    assert rounds.next_in_s == math.inf


def test_the_round_behind_is_begun_when_the_one_before_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    rounds = AskedRounds()
    for number in (1, 2):
        trace = DraftTrace(INVALID_SPAN)
        rounds.ask(AskedRound(number, number, 1.0, True, trace, now), continues=True)
        now += 0.5
    assert rounds.next_in_s == pytest.approx(0.0)
    rounds.end(1)
    assert rounds.next_in_s == pytest.approx(0.5)


def test_an_answer_ends_the_rounds_before_it() -> None:
    rounds = AskedRounds()
    for number in (1, 2, 3):
        rounds.ask(asked(number), continues=False)
    second = rounds.heard(2)
    assert second is not None
    rounds.reached(second, next_in_s=0.0)
    assert rounds.heard(1) is None
    assert rounds.heard(3) is not None
    assert rounds.any


def test_too_many_rounds_without_an_answer_are_a_silence_too() -> None:
    rounds = AskedRounds()
    for number in range(MAX_UNANSWERED):
        rounds.ask(asked(number), continues=False)
    assert not rounds.gone_quiet
    rounds.ask(asked(MAX_UNANSWERED), continues=False)
    assert rounds.gone_quiet


def test_a_round_trip_is_what_neither_the_draft_nor_its_last_token_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    trace = DraftTrace(INVALID_SPAN)
    first = [common_pb2.DraftToken(root_round=7)]
    spent = WorkerTime(model_s=0.3, queue_s=0.1)
    for idle, expected in ((True, 0.6), (False, 0.5)):
        now = 100.0
        round_ = AskedRound(7, 1, 1.0, idle, trace, now)
        now += 1.0
        trip_s = round_.round_trip_s(first, spent=spent, token_s=0.2)
        assert trip_s == pytest.approx(expected)
        # Only the first tokens have waited for the whole way.
        assert round_.round_trip_s(first, spent=spent, token_s=0.2) is None
    going_on = [common_pb2.DraftToken(parent_node_id=3)]
    other = AskedRound(7, 1, 1.0, True, trace, now)
    assert other.round_trip_s(going_on, spent=spent, token_s=0.2) is None


def test_the_pace_follows_what_is_measured() -> None:
    pace = DraftPace()
    pace.drafted(steps=4, seconds=0.4)
    assert pace.token_s == pytest.approx(0.1)
    for _ in range(30):
        pace.drafted(steps=1, seconds=0.2)
        pace.travelled(0.05)
    assert pace.token_s == pytest.approx(0.2, rel=0.01)
    assert pace.round_trip_s == pytest.approx(0.05)
