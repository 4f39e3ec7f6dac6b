"""What a coordinator asks of a draft that copies, and what it makes of the answers."""

from __future__ import annotations

import pytest

from coordinator.draft_intake import DraftLaw
from coordinator.draft_plan import DraftPlan
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.draft_sessions import chain, lost, proposal, session_under_test

COPIES = ["copies"]
LOOK_UP = DraftPlan(0, copies=6, run=2)


def copied(number: int, *token_ids: int, first_name: int = 1) -> list[common_pb2.DraftToken]:
    """Tokens that a draft copied, with a law that such tokens do not have."""
    tokens = chain(number, *token_ids, first_name=first_name)
    for token in tokens:
        token.copied = True
    return tokens


@pytest.mark.parametrize(
    ("plan", "until", "together"),
    [
        (DraftPlan(2, ahead=3, copies=6), (8, 14), 5),
        (DraftPlan(2, ahead=3), (8, 0), 5),
        (DraftPlan(0, copies=6, together=1), (3, 9), 0),
    ],
)
async def test_copies_go_on_beyond_what_is_drawn(
    plan: DraftPlan, until: tuple[int, int], together: int
) -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(plan)
        asked = await bench.asked(1)
        assert (asked.draft_until_length, asked.copy_until_length) == until
        assert asked.together_until_length == together


async def test_a_draft_that_does_not_copy_is_not_asked_to() -> None:
    async with session_under_test() as bench:
        bench.session.commit(DraftPlan(2, ahead=3, copies=6))
        assert (await bench.asked(1)).copy_until_length == 0


@pytest.mark.parametrize(
    ("law", "kind"), [(DraftLaw.REPORTED, "point_mass"), (DraftLaw.NONE, None)]
)
async def test_a_copied_token_was_not_drawn_whatever_it_says(
    law: DraftLaw, kind: str | None
) -> None:
    async with session_under_test(law, features=COPIES) as bench:
        bench.session.commit(DraftPlan(2, copies=6))
        tokens = [*chain(1, 10), *copied(1, 11, 12, first_name=2)]
        tokens[1].parent_node_id = 1
        await bench.send(proposal(1, tokens))
        await bench.until(lambda: bench.ids == [10, 11, 12])
        first, *others = bench.tree.chain(9)
        assert bench.tree.copied(9) == [False, True, True]
        assert first.WhichOneof("law") == ("distribution" if kind else None)
        assert {token.WhichOneof("law") for token in others} == {kind}


async def test_copied_tokens_take_no_forward() -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(DraftPlan(2, copies=6))
        tokens = [*copied(1, 10, 11), *chain(1, 12, first_name=3)]
        tokens[2].parent_node_id = 2
        await bench.send(proposal(1, tokens))
        await bench.until(lambda: bench.ids == [10, 11, 12])
    (facts,) = bench.policy.proposals
    assert (facts.tokens, facts.steps, facts.copied) == (1, 1, None)
    assert facts.round_trip_s is not None


async def test_copies_where_draws_were_asked_for_are_an_answer_too() -> None:
    """Who waited in vain before knows by them that the draft is there again."""
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(DraftPlan(2, copies=6))
        await bench.send(proposal(1, copied(1, 10, 11)))
        await bench.until(lambda: bench.ids == [10, 11])
    (facts,) = bench.policy.proposals
    assert (facts.tokens, facts.steps, facts.copied) == (0, 0, None)
    assert facts.round_trip_s is not None


@pytest.mark.parametrize("count", [0, 3])
async def test_an_answer_to_a_question_for_copies_alone_is_an_offer(count: int) -> None:
    """One of none says how far the draft is, too."""
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(LOOK_UP)
        await bench.send(proposal(1, copied(1, *range(10, 10 + count))))
        await bench.until(lambda: bool(bench.policy.proposals))
        assert bench.session.next_in_s == float("inf")
    (facts,) = bench.policy.proposals
    assert (facts.copied, facts.steps, facts.tokens) == (count, 0, 0)
    assert facts.round_trip_s is not None


async def test_an_answer_below_what_is_there_already_is_no_offer() -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(LOOK_UP)
        await bench.send(proposal(1, copied(1, 10, 11)))
        await bench.until(lambda: bench.ids == [10, 11])
        bench.tree.advance([10])
        bench.session.commit(LOOK_UP)
        await bench.asked(2)
        more = copied(2, 12, first_name=3)
        more[0].parent_node_id = 2
        await bench.send(proposal(2, more))
        await bench.until(lambda: bench.ids == [11, 12])
    assert [facts.copied for facts in bench.policy.proposals] == [2, None]


async def test_copies_that_come_late_are_told_apart_from_drawn_tokens() -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(LOOK_UP)
        await bench.asked(1)
        bench.tree.advance([10, 99])
        await bench.send(proposal(1, copied(1, 10, 11, 12)))
        await bench.until(lambda: bool(bench.policy.proposals))
    assert [(one.matched, one.copied) for one in bench.policy.foreseen] == [
        (True, True),
        (False, True),
    ]
    assert bench.ids == []


async def test_no_more_is_kept_than_was_asked_for() -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(LOOK_UP)
        await bench.send(proposal(1, copied(1, *range(10, 30))))
        await bench.until(lambda: bool(bench.policy.proposals))
        assert bench.ids == list(range(10, 16))


async def test_bytes_are_those_of_all_messages_after_the_first_round() -> None:
    async with session_under_test(features=COPIES) as bench:
        bench.session.commit(LOOK_UP)
        await bench.send(proposal(1, copied(1, 10)))
        await bench.until(lambda: bench.ids == [10])
        assert bench.session.bytes == 0
        bench.tree.advance([10])
        bench.session.commit(LOOK_UP)
        asked = await bench.asked(2)
        answers = [lost(2), proposal(3, copied(3, 11))]
        bench.draft.send(answers[0])
        again = await bench.asked(3)
        bench.draft.send(answers[1])
        await bench.until(lambda: bench.ids == [11])
        requests = [draft_pb2.DraftRequest(round=one) for one in (asked, again)]
        expected = sum(message.ByteSize() for message in (*requests, *answers))
        assert bench.session.bytes == expected
    assert bench.session.bytes == expected
