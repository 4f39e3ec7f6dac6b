"""The coordinator's end of a draft's stream, against a server that answers as the test says."""

from __future__ import annotations

import asyncio
import gc
import math

from coordinator import backoff, draft_dialogue
from coordinator.draft_plan import DraftPlan
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
        for number in range(1, draft_dialogue.MAX_REPLAYS_IN_A_ROW + 2):
            await bench.asked(number)
            await bench.send(lost(number))
        await bench.until(lambda: not bench.session.ready)
        assert bench.session.next_in_s == math.inf


async def test_answers_without_tokens_between_losses_do_not_help() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        for number in range(1, draft_dialogue.MAX_REPLAYS_IN_A_ROW + 2):
            await bench.asked(number)
            await bench.send(proposal(number, done=False), lost(number))
        await bench.until(lambda: not bench.session.ready)
    assert bench.session.replays == draft_dialogue.MAX_REPLAYS_IN_A_ROW


async def test_tokens_between_losses_show_that_state_is_kept() -> None:
    losses = 3 * draft_dialogue.MAX_REPLAYS_IN_A_ROW
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


async def test_pauses_grow_until_tokens_come() -> None:
    now = 100.0
    pauses = []
    async with session_under_test(clock=lambda: now) as bench:
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


async def test_closing_half_closes() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        await bench.asked(1)
        await bench.session.close()
        await asyncio.wait_for(bench.draft.half_closed.wait(), 5.0)


async def test_a_stream_that_is_given_up_before_it_begins_leaves_nothing() -> None:
    async with session_under_test() as bench:
        bench.session.commit(PLAN)
        bench.session._fail(rest=False)
        await asyncio.sleep(0.01)
        gc.collect()
    assert not bench.draft.rounds
