"""The coordinator's end of a draft's stream, against a server that answers as the test says."""

from __future__ import annotations

import asyncio
import math
import time
from types import SimpleNamespace

import pytest

from coordinator import backoff, draft_rounds, draft_session
from coordinator.draft_intake import MAX_TOKEN_BYTES, DraftLaw
from coordinator.draft_pace import DraftPace
from coordinator.draft_plan import DraftPlan
from coordinator.draft_tree import MAX_NODES
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.draft_sessions import chain, lost, proposal, session_under_test

PLAN = DraftPlan(2, ahead=3)


async def test_a_commit_says_what_is_new_and_how_far_to_draft() -> None:
    async with session_under_test() as bench:
        bench.session.commit(DraftPlan(2, ahead=3, branches=4, branch_length=5, acceptance=0.5))
        asked = await bench.asked(1)
        assert (asked.base_length, list(asked.committed_token_ids)) == (0, [1, 2, 3])
        assert (asked.together_until_length, asked.draft_until_length) == (5, 8)
        assert (asked.branches, asked.branch_length, asked.acceptance) == (4, 5, 0.5)
        await bench.send(proposal(1, chain(1, 10, 11), length=4))
        assert await bench.session.arrival(5.0)
        bench.tree.advance([10, 12])
        bench.session.commit(DraftPlan(0, ahead=3))
        asked = await bench.asked(2)
        assert (asked.number, asked.base_length) == (2, 3)
        assert list(asked.committed_token_ids) == [10, 12]
        assert asked.prefix_digest == bench.prefix.digest(3)
        assert (asked.together_until_length, asked.draft_until_length) == (0, 8)
    assert len(bench.draft.opens) == 1


async def test_fewer_tokens_may_come_together_than_are_verified() -> None:
    async with session_under_test() as bench:
        bench.session.commit(DraftPlan(4, ahead=3, together=1))
        asked = await bench.asked(1)
        assert (asked.together_until_length, asked.draft_until_length) == (4, 10)


async def test_a_commit_waits_for_nothing_and_only_the_latest_is_written() -> None:
    async with session_under_test() as bench:
        for token_id in (10, 11, 12):
            bench.session.commit(PLAN)
            bench.tree.advance([token_id])
        asked = await bench.asked(1)
        assert (asked.number, list(asked.committed_token_ids)) == (3, [1, 2, 3, 10, 11])
        await bench.send(proposal(3, chain(3, 12, 13)))
        assert await bench.session.arrival(5.0)
        assert bench.ids == [13]


async def test_tokens_come_while_others_are_verified() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10, 11), done=False))
        await bench.until(lambda: bench.ids == [10, 11])
        rest = chain(1, 12, first_name=3)
        rest[0].parent_node_id = 2
        await bench.send(proposal(1, rest))
        await bench.until(lambda: bench.ids == [10, 11, 12])
        assert bench.session.next_in_s == math.inf
    assert [facts.tokens for facts in bench.policy.proposals] == [2, 1]


async def test_what_was_drafted_before_the_last_commit_is_used_if_it_still_fits() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        bench.tree.advance([10])
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10, 11, 12), done=False))
        await bench.until(lambda: bench.ids == [11, 12])
    assert [facts.matched for facts in bench.policy.foreseen] == [True]


async def test_what_was_drafted_for_another_output_is_counted_and_dropped() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        bench.tree.advance([9])
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10, 11, 12)))
        await bench.until(lambda: bench.intake.stale_proposals == 1)
        assert bench.ids == []
        assert bench.intake.stale_tokens == 3
    assert [facts.matched for facts in bench.policy.foreseen] == [False]


async def test_lost_state_is_sent_again_from_what_is_kept() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10), length=3))
        await bench.session.arrival(5.0)
        bench.tree.advance([10, 11])
        bench.session.commit(PLAN)
        await bench.asked(2)
        await bench.send(lost(2, kept=2))
        asked = await bench.asked(3)
        assert (asked.number, asked.base_length) == (3, 2)
        assert list(asked.committed_token_ids) == [3, 10, 11]
        assert (asked.together_until_length, asked.draft_until_length) == (7, 10)
        assert bench.session.replays == 1


async def test_a_draft_that_never_keeps_state_is_given_up() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        for number in range(1, draft_session.MAX_REPLAYS_IN_A_ROW + 2):
            await bench.asked(number)
            await bench.send(lost(number))
        await bench.until(lambda: not bench.session.ready)
        assert bench.session.next_in_s == math.inf


async def test_answers_without_tokens_between_losses_do_not_help() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        for number in range(1, draft_session.MAX_REPLAYS_IN_A_ROW + 2):
            await bench.asked(number)
            await bench.send(proposal(number, done=False), lost(number))
        await bench.until(lambda: not bench.session.ready)
    assert bench.session.replays == draft_session.MAX_REPLAYS_IN_A_ROW


async def test_tokens_between_losses_show_that_state_is_kept() -> None:
    losses = 3 * draft_session.MAX_REPLAYS_IN_A_ROW
    async with session_under_test() as bench:
        for number in range(1, 2 * losses, 2):
            bench.session.commit(PLAN)
            await bench.asked(number)
            await bench.send(lost(number))
            await bench.asked(number + 1)
            await bench.send(proposal(number + 1, chain(number + 1, 10, first_name=number)))
            await bench.until(lambda: bench.ids == [10])
            bench.tree.advance([10])
        assert bench.session.ready
    assert bench.session.replays == losses


async def test_tokens_of_another_process_are_not_used() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10), replica="another"))
        await bench.until(lambda: not bench.session.ready)
        assert bench.ids == []


async def test_a_stream_that_ends_is_opened_anew_after_a_pause() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10, 11), done=False))
        await bench.session.arrival(5.0)
        bench.draft.end()
        await bench.until(lambda: not bench.session.ready)
        assert bench.ids == [10, 11]
        bench.tree.advance([10])
        bench.session.commit(PLAN)
        assert len(bench.draft.opens) == 1
        await bench.until(lambda: bench.session.ready)
        bench.session.commit(PLAN)
        asked = await bench.asked(2)
        assert (asked.base_length, list(asked.committed_token_ids)) == (0, [1, 2, 3, 10])
        # The new stream has names of its own, and draws again what is there already.
        await bench.send(proposal(asked.number, chain(asked.number, 11, 12)))
        await bench.until(lambda: bench.ids == [11, 12])
    assert len(bench.draft.opens) == 2


async def test_pauses_grow_until_tokens_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(backoff, "time", SimpleNamespace(perf_counter=lambda: now))
    pauses = []
    async with session_under_test() as bench:
        for token_ids in ((), (), (), (10,), ()):
            bench.session.commit(PLAN)
            asked = await bench.asked(len(pauses) + 1)
            await bench.send(proposal(asked.number, chain(asked.number, *token_ids)))
            assert await bench.session.arrival(5.0)
            bench.draft.end()
            await bench.until(lambda: not bench.session.ready)
            since = now
            while not bench.session.ready:
                now += backoff.FIRST_S / 2
            pauses.append((now - since) / backoff.FIRST_S)
    assert pauses == [1, 2, 4, 1, 2]


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
    pace = DraftPace()
    async with session_under_test(pace=pace) as silent, session_under_test(pace=pace) as other:
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
        asyncio.get_running_loop().call_later(0.0, bench.session._take, late)
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


async def test_answers_that_nobody_asked_for_change_nothing() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(
            draft_pb2.DraftResponse(),
            proposal(7, chain(7, 10)),
            lost(7),
            draft_pb2.DraftResponse(round_number=1),
            draft_pb2.DraftResponse(round_number=7, superseded=common_pb2.Superseded()),
            proposal(1, chain(1, 11)),
        )
        await bench.until(lambda: bench.ids == [11])
        assert bench.session.replays == 0


async def test_absurd_figures_do_no_harm() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        answer = proposal(1, chain(1, 10), length=2**32 - 1, done=False)
        answer.proposal.queue_depth = 2**32 - 1
        timings = answer.proposal.timings
        timings.queue_us = timings.forward_us = timings.sampling_us = 2**64 - 1
        await bench.send(answer, answer)
        await bench.until(lambda: len(bench.policy.proposals) == 2)
        assert bench.ids == [10]
        assert bench.session.next_in_s < 1.0
        assert bench.intake.time.total_s < 1.0
        bench.tree.advance([10])
        bench.session.commit(PLAN)
        assert (await bench.asked(2)).base_length == 3


async def test_more_tokens_than_were_asked_for_are_not_kept() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, *range(10, 30))))
        await bench.session.arrival(5.0)
        assert bench.ids == [10, 11, 12, 13, 14]


async def test_a_message_that_no_tree_could_hold_ends_the_stream() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        token = chain(1, 10)[0]
        await bench.send(proposal(1, [token] * (MAX_NODES + 1)))
        await bench.until(lambda: not bench.session.ready)
    assert (bench.intake.stale_proposals, bench.intake.stale_tokens) == (1, MAX_NODES + 1)
    assert bench.tree.size == 0
    assert bench.policy.proposals == []


async def test_a_token_with_a_giant_law_is_not_kept() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        tokens = chain(1, 10, 11)
        tokens[1].distribution.weights.extend([1] * MAX_TOKEN_BYTES)
        await bench.send(proposal(1, tokens))
        await bench.until(lambda: bench.intake.stale_tokens == 1)
        assert bench.ids == [10]


@pytest.mark.parametrize(
    ("law", "kept"),
    [
        (DraftLaw.REPORTED, "distribution"),
        (DraftLaw.POINT_MASS, "point_mass"),
        (DraftLaw.NONE, None),
    ],
)
async def test_what_is_kept_of_a_law_is_a_matter_of_trust(law: DraftLaw, kept: str | None) -> None:
    async with session_under_test(law) as bench:
        bench.session.commit(PLAN)
        await bench.send(proposal(1, chain(1, 10)))
        await bench.session.arrival(5.0)
        assert bench.tree.chain(1)[0].WhichOneof("law") == kept


async def test_closing_half_closes() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        await bench.session.close()
        await asyncio.wait_for(bench.draft.half_closed.wait(), 5.0)
