"""A draft that answers what nobody asked: more, other, absurd or giant."""

from __future__ import annotations

import pytest

from coordinator.draft_intake import MAX_TOKEN_BYTES, DraftLaw
from coordinator.draft_plan import DraftPlan
from coordinator.draft_tree import MAX_NODES
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.draft_sessions import chain, lost, proposal, session_under_test

PLAN = DraftPlan(2, ahead=3)


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
