"""How long a draft is waited for: one that is late, one that says nothing, one that goes."""

from __future__ import annotations

import asyncio
import math
import time
from types import SimpleNamespace

import pytest

from coordinator import backoff, draft_rounds
from coordinator.breaker import Breaker
from coordinator.draft_plan import DraftPlan
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.draft_sessions import chain, proposal, session_under_test

PLAN = DraftPlan(2, ahead=3)


def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets more time pass, for those who listen, than a draft may be silent."""
    passed_s = 10 * draft_rounds.LONGEST_SILENCE_S
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + passed_s)
    monkeypatch.setattr(draft_rounds, "time", clock)


async def test_a_draft_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        bench.session.commit(PLAN)
        assert bench.session.ready
        silence(monkeypatch)
        bench.session.commit(PLAN)
        assert not bench.session.ready


async def test_progress_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        silence(monkeypatch)
        assert bench.session._asked.gone_quiet
        await bench.send(
            draft_pb2.DraftResponse(round_number=1, progress=common_pb2.Progress(elapsed_ms=1000))
        )
        await bench.until(lambda: not bench.session._asked.gone_quiet)
        bench.session.commit(PLAN)
        await bench.asked(2)
        assert bench.session.ready
    assert len(bench.draft.opens) == 1


async def test_a_draft_that_never_answers_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "FIRST_S", 0.01)
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        assert not await bench.session.arrival(0.01)
        with monkeypatch.context() as later:
            silence(later)
            bench.session.commit(PLAN)
        await bench.until(lambda: bench.session.ready)
        bench.session.commit(PLAN)
        await bench.until(lambda: len(bench.draft.opens) == 2)
        assert bench.session.next_in_s == math.inf
        asked = await bench.asked(2)
        await bench.send(proposal(asked.number, chain(asked.number, 10), done=False))
        await bench.until(lambda: bench.ids == [10])
        assert bench.session.next_in_s < math.inf


async def test_silence_is_known_to_all_that_use_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Breaker()
    async with (
        session_under_test(breaker=both) as silent,
        session_under_test(breaker=both) as other,
    ):
        silent.session.commit(PLAN)
        await silent.asked(1)
        assert other.session.ready
        with monkeypatch.context() as later:
            silence(later)
            silent.session.commit(PLAN)
        assert not other.session.ready
        other.session.commit(PLAN)
        await other.until(lambda: other.session.ready)
        assert other.draft.opens == []
        other.session.commit(PLAN)
        await other.asked(1)


async def test_after_a_wait_in_vain_nothing_is_expected_until_something_comes() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        assert bench.session.next_in_s < math.inf
        assert not await bench.session.arrival(0.01)
        assert bench.session.next_in_s == math.inf
        bench.session.commit(PLAN)
        assert bench.session.next_in_s == math.inf
        await bench.asked(1)
        await bench.send(proposal(1, chain(1, 10), done=False))
        await bench.until(lambda: bench.ids == [10])
        assert bench.session.next_in_s < math.inf


async def test_what_comes_as_the_time_is_up_has_come_in_time() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        waiting = asyncio.create_task(bench.session.arrival(0.0))
        await asyncio.sleep(0)
        late = proposal(1, chain(1, 10), done=False)
        # Behind the end of the wait, and before the one who waited goes on.
        asyncio.get_running_loop().call_later(0.0, bench.session._dialogue.take, late)
        assert await waiting
        assert bench.ids == [10]
        assert bench.session.next_in_s < math.inf


async def test_a_wait_ends_with_the_stream() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        bench.draft.end()
        assert await bench.session.arrival(5.0)
        assert bench.session.next_in_s == math.inf


async def test_the_next_token_is_expected_by_what_was_measured() -> None:
    async with session_under_test() as bench:
        bench.pace.token_s, bench.pace.round_trip_s = 1.0, 10.0
        bench.session.commit(PLAN)
        assert bench.session.next_in_s == pytest.approx(12.0, abs=0.5)
        await bench.send(proposal(1, chain(1, 10, 11), done=False))
        bench.pace.token_s = 1.0
        await bench.session.arrival(5.0)
        streaming_s = bench.session.next_in_s
        assert streaming_s < 2.0
        # It goes on below what it has sent: the commit changes nothing.
        bench.tree.advance([10])
        bench.session.commit(PLAN)
        assert bench.session.next_in_s == pytest.approx(streaming_s, abs=0.5)
