"""What a draft copies, what it draws, and when it says so: forward by forward."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain as joined

import pytest

from draft_service import copybook, generation_text
from draft_service.draft_job import DraftTerms, KnownToken
from draft_service.drafting import MOST_BEHIND
from draft_service.orders import GoOn
from draft_service.proposal import DraftRule
from draft_service.reach import Reach
from outrider.draft_law import POINT_MASS, CutLaw
from outrider.drafter import Drafter
from outrider.engine.copying_model import CopyingModel
from outrider.engine.work import Recalled
from outrider.prefix import TokenPrefix
from tests.unit.copies.by_hand import GREEDY, OWNER, SAMPLED, VOCABULARY, Drafts, Given

SONG = [10, 20, 30, 40, 11, 21, 31, 41]
"""The model counts on from any of these; what follows in the song is something else."""
AGAIN = [*SONG, *SONG[:4]]
LEADS_ON = [8, 9, 10, 55, 56, 57, 1, 7]
"""The model goes on by 8, 9, 10, 11; as soon as 8 and 9 are there they are found before 10, 55."""
COPYING = [Drafter.NGRAM, Drafter.SUFFIX, Drafter.MIXED]


def ids(answers: list[Given]) -> list[int]:
    return list(joined.from_iterable(given.ids for given in answers))


def copied(answers: list[Given]) -> list[int]:
    return list(joined.from_iterable(given.copied for given in answers))


@pytest.mark.parametrize("drafter", COPYING)
@pytest.mark.parametrize("terms", [GREEDY, SAMPLED])
def test_what_came_before_is_copied_without_a_forward(drafter: Drafter, terms: DraftTerms) -> None:
    drafts = Drafts(drafter, terms)
    (given,) = drafts.run(drafts.job(AGAIN, until=3))
    assert given.ids == given.copied == SONG[4:7]
    assert [each.token.law for each in given.chain] == [POINT_MASS] * 3
    assert given.forwards == 0
    # The ids need not be sent again, though they have no state.
    assert given.result.kept_length == len(AGAIN)
    assert given.result.committed_digest == TokenPrefix(AGAIN).digest(len(AGAIN))


def test_a_draft_without_copies_draws_them_all() -> None:
    drafts = Drafts(Drafter.MODEL)
    (given,) = drafts.run(drafts.job(AGAIN, until=2, copy_until=9))
    assert (given.ids, given.copied) == ([41, 42], [])
    assert drafts.table.notes is None


def test_coupled_copies_have_no_law() -> None:
    drafts = Drafts(terms=replace(SAMPLED, rule=DraftRule.COUPLED))
    (given,) = drafts.run(drafts.job(AGAIN, until=3))
    assert given.copied == SONG[4:7]
    assert [each.token.law for each in given.chain] == [None] * 3


def test_copies_follow_drawn_tokens_and_the_reverse() -> None:
    drafts = Drafts()
    (given,) = drafts.run(drafts.job(LEADS_ON, until=10))
    assert given.ids == [8, 9, 10, 55, 56, 57, 1, 7, 8, 9]
    assert given.copied == [10, 55, 56, 57, 1, 7]
    # Each forward that draws reads all that came since the one before.
    assert drafts.read == [LEADS_ON, [8], [9, 10, 55, 56, 57, 1, 7], [8]]


def test_a_token_drawn_by_chance_does_not_wait_while_others_are_copied() -> None:
    drafts = Drafts(terms=SAMPLED)
    (given,) = drafts.run(drafts.job(LEADS_ON, until=4))
    assert (given.ids, given.copied) == ([8, 9, 10, 11], [])
    assert [type(each.token.law) for each in given.chain] == [CutLaw] * 4
    assert given.forwards == 4


def test_behind_those_that_are_waited_for_each_comes_with_the_copies_that_follow_it() -> None:
    drafts = Drafts(terms=SAMPLED)
    answers = drafts.run(drafts.job(LEADS_ON, until=7, together_until=2))
    assert [given.ids for given in answers] == [[8, 9], [10, 55, 56, 57, 1]]
    assert [given.forwards for given in answers] == [2, 3]
    assert copied(answers) == [55, 56, 57, 1]


def test_copies_at_the_beginning_do_not_wait_for_a_forward() -> None:
    drafts = Drafts(terms=replace(SAMPLED, vocabulary_size=41))
    first, last = drafts.run(drafts.job(AGAIN, until=6))
    assert (first.copied, first.forwards) == (SONG[4:7], 0)
    # Id 41 is not to be proposed.
    assert (last.ids, last.copied, last.forwards) == ([32, 33, 34], [], 3)
    assert drafts.read[0] == [*AGAIN, *SONG[4:7]]


@pytest.mark.parametrize("drafter", [Drafter.NGRAM, Drafter.SUFFIX])
def test_without_a_model_the_proposal_ends_where_there_is_no_match(drafter: Drafter) -> None:
    model = CopyingModel(vocabulary_size=VOCABULARY, context_length=500)
    drafts = Drafts(drafter, replace(GREEDY, vocabulary_size=41), model=model)
    (given,) = drafts.run(drafts.job(AGAIN, until=9, copy_until=20))
    assert given.copied == SONG[4:7]
    (given,) = drafts.run(drafts.job([*AGAIN, 5], until=4, copy_until=20, base=len(AGAIN)))
    assert given.ids == []
    assert given.result.kept_length == len(AGAIN) + 1
    assert drafts.read == []


def test_copies_go_on_beyond_what_is_drawn_while_they_are_likely() -> None:
    drafts = Drafts()
    (given,) = drafts.run(drafts.job([*SONG * 3, *SONG[:4]], until=2, copy_until=12))
    assert len(given.copied) == 12
    (given,) = drafts.run(drafts.job([*SONG, 5, *SONG[:2]], until=2, copy_until=12))
    # After four times the song the next ids are as good as certain, after two ids they are not.
    assert 2 < len(given.copied) < 12


def test_nothing_is_drawn_where_copies_alone_are_asked_for() -> None:
    drafts = Drafts()
    (given,) = drafts.run(drafts.job(AGAIN, until=0, copy_until=3))
    assert given.copied == SONG[4:7]
    (given,) = drafts.run(drafts.job([*AGAIN, 5], until=0, copy_until=3, base=len(AGAIN)))
    assert (given.ids, given.result.kept_length) == ([], len(AGAIN) + 1)
    assert drafts.read == []


def test_a_round_that_asks_for_nothing_reads_what_is_committed() -> None:
    drafts = Drafts()
    (given,) = drafts.run(drafts.job(AGAIN, until=0))
    assert given.ids == []
    assert drafts.read == [AGAIN]


def test_ids_without_state_are_read_when_they_are_many() -> None:
    drafts = Drafts()
    text = [*SONG * 4, *SONG[:4]]
    assert len(text) > MOST_BEHIND
    first, last = drafts.run(drafts.job(text, until=3))
    assert (first.copied, first.forwards) == (SONG[4:7], 0)
    assert (last.ids, last.forwards) == ([], 1)
    assert drafts.read == [text]
    # A few more are left to the forward that draws.
    (given,) = drafts.run(drafts.job([*text, *SONG[4:7]], until=1, base=len(text)))
    assert (given.copied, len(drafts.read)) == (SONG[7:], 1)


def test_a_later_round_that_follows_the_chain_is_gone_on_with() -> None:
    drafts = Drafts(terms=SAMPLED)
    text = [5, 6, 7, 8, 9, 10, 55, 56, 57, 1, 4]
    length = len(text)

    def order(number: int) -> Exception | None:
        if number == 2:
            # 5 is committed, 6 is there, 7 is being drawn.
            reach = Reach(9, length + 1, until=length + 10, together_until=length + 3)
            GoOn(OWNER, reach)(drafts.table)
        return None

    answers = drafts.run(drafts.job(text, until=3, together_until=1), before_forward=order)
    assert ids(answers) == [5, 6, 7, 8, 9, 10, 55, 56, 57, 1]
    assert copied(answers)[-4:] == [55, 56, 57, 1]
    assert answers[0].result.number == answers[1].result.number == 1
    assert {given.result.number for given in answers[2:]} == {9}


def test_known_tokens_are_gone_on_from() -> None:
    drafts = Drafts()
    known = [KnownToken(token_id) for token_id in SONG[4:6]]
    (given,) = drafts.run(drafts.job(AGAIN, until=4, known=known))
    assert given.copied == SONG[6:]
    assert [each.parent for each in given.chain] == [1, 2]


def test_side_branches_begin_where_there_is_state() -> None:
    drafts = Drafts()
    answers = drafts.run(drafts.job(LEADS_ON, until=5, branches=8, branch_length=1))
    guesses = [each for given in answers for each in given.result.tokens if each.guess]
    assert ids(answers)[:5] == [8, 9, 10, 55, 56]
    # Beside the two drawn tokens, not beside the copies behind them.
    assert {each.parent for each in guesses} == {None, 0}


def test_drafting_that_is_recalled_gives_what_it_has_copied() -> None:
    drafts = Drafts(terms=replace(SAMPLED, vocabulary_size=41))
    answers = drafts.run(drafts.job(AGAIN, until=6), before_forward=lambda number: Recalled())
    assert ids(answers) == SONG[4:7]
    assert drafts.read == []


def test_a_forward_that_fails_leaves_the_copies() -> None:
    drafts = Drafts(terms=replace(SAMPLED, vocabulary_size=41))
    answers = drafts.run(
        drafts.job(AGAIN, until=6), before_forward=lambda number: RuntimeError("a test")
    )
    assert ids(answers) == SONG[4:7]


def test_a_lost_text_is_lost_state() -> None:
    drafts = Drafts()
    drafts.run(drafts.job(AGAIN, until=2))
    drafts.table.notes = None
    with pytest.raises(AssertionError, match="state is lost"):
        drafts.run(drafts.job([*AGAIN, 11], until=2, base=len(AGAIN)))
    (given,) = drafts.run(drafts.job([*AGAIN, 11], until=2))
    assert given.copied == SONG[5:7]


def other_stream(drafts: Drafts, name: str) -> Drafts:
    return Drafts(drafts.drafter, handles=drafts.table, owner=name)


@pytest.mark.parametrize("drafter", COPYING)
def test_where_many_are_there_the_last_ones_copy_nothing_until_there_is_room(
    drafter: Drafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copybook, "MOST_IDS", 2 * len(AGAIN) + 8)
    streams = [Drafts(drafter)]
    streams += [other_stream(streams[0], name) for name in ("two", "three")]
    for drafts in streams:
        drafts.run(drafts.job(AGAIN, until=0, copy_until=2))
    text = AGAIN
    for token_id in SONG[4:7]:
        text, base = [*text, token_id], len(text)
        found = [
            copied(drafts.run(drafts.job(text, until=0, copy_until=2, base=base)))
            for drafts in streams
        ]
        assert found[:2] == [[*SONG, *SONG][SONG.index(token_id) + 1 :][:2]] * 2
        assert found[2] == [], "nobody's text went for it, and its own state is not lost"
    first = streams[0]
    first.table.lease(first.handle_id, owner=first.owner)
    text, base = [*text, SONG[7]], len(text)
    last = streams[2]
    assert copied(last.run(last.job(text, until=0, copy_until=2, base=base))) == SONG[:2]
    assert copied(streams[1].run(streams[1].job(text, until=0, copy_until=2, base=base)))


def test_a_long_text_is_indexed_before_the_only_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation_text, "AT_ONCE", 4)
    drafts = Drafts()
    (given,) = drafts.run(drafts.job(AGAIN, until=0, copy_until=3))
    assert given.copied == SONG[4:7]
    # Where forwards are needed in any case, some at each.
    drafts = other_stream(drafts, "drawn")
    answers = drafts.run(drafts.job(AGAIN, until=5))
    assert ids(answers) == [41, 42, 43, 44, 45]


def test_another_output_and_other_terms_begin_where_the_text_alone_has_the_ids() -> None:
    drafts = Drafts()
    drafts.run(drafts.job(AGAIN, until=0, copy_until=2))
    assert drafts.table.length(drafts.handle_id) < len(AGAIN) - 1
    other = [*AGAIN[:-1], 7, *SONG[:2]]
    (given, *_) = drafts.run(drafts.job(other, until=0, copy_until=2, base=len(AGAIN) - 1))
    assert given.copied == [30, 7]
    drafts.terms = replace(GREEDY, rule=DraftRule.COUPLED)
    (given, *_) = drafts.run(drafts.job([*other, 30], until=0, copy_until=2, base=len(other)))
    assert given.copied == [7, 10]
    assert given.result.kept_length == len(other) + 1
    assert drafts.read == []


def test_a_text_that_grows_beyond_what_there_is_room_for_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copybook, "MOST_IDS", 2 * len(AGAIN) + 1)
    streams = [Drafts(Drafter.SUFFIX)]
    streams.append(other_stream(streams[0], "two"))
    for drafts in streams:
        drafts.run(drafts.job(AGAIN, until=0, copy_until=2))
    text = AGAIN
    for token_id in [*SONG[4:], *SONG]:
        text, base = [*text, token_id], len(text)
        for drafts in streams:
            assert copied(drafts.run(drafts.job(text, until=0, copy_until=2, base=base)))


@pytest.mark.parametrize(("recent_ids", "found"), [(1000, SONG[4:6]), (0, [])])
def test_other_outputs_are_copied_where_they_are_kept(recent_ids: int, found: list[int]) -> None:
    first = Drafts(Drafter.SUFFIX, recent_ids=recent_ids)
    first.run(first.job([1], until=0))
    first.run(first.job([1, *SONG], base=1, until=0))
    other = Drafts(Drafter.SUFFIX, recent_ids=recent_ids, handles=first.table, owner="other")
    (given,) = other.run(other.job([1, *SONG[:4]], until=2))
    assert given.copied == found
