"""One generation's text: what it is made of, how it is indexed and what is learned from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from draft_service import generation_text
from draft_service.chances import Chances, Source, WorkerChances
from draft_service.generation_text import AT_ONCE, GenerationText, Proposed
from draft_service.recent_texts import RecentTexts, Writer
from draft_service.text_index import SuffixIndex
from outrider.prefix import TokenPrefix
from tests.unit.copies.by_hand import SAMPLED, Drafts


class Outcomes(Chances):
    """Keeps what was seen."""

    def __init__(self) -> None:
        super().__init__(WorkerChances(greedy=False))
        self.copies: list[tuple[Source, int, bool]] = []
        self.draws: list[tuple[int, bool]] = []

    def saw_copied(self, source: Source, length: int, *, hit: bool) -> None:
        self.copies.append((source, length, hit))

    def saw_drawn(self, length: int, *, hit: bool) -> None:
        self.draws.append((length, hit))


def text_of(
    *token_ids: int, prompt_length: int = 1, recent: RecentTexts | None = None
) -> tuple[GenerationText, Outcomes]:
    outcomes = Outcomes()
    terms = replace(SAMPLED, prompt_length=prompt_length)
    text = GenerationText(
        SuffixIndex, outcomes, terms=terms, recent=recent, writer=Writer(terms.derived_seed)
    )
    text.commit(token_ids)
    return text, outcomes


def test_whether_it_goes_on() -> None:
    text, _ = text_of(1, 2, 3, 4)

    def goes_on(kept: list[int], base: list[int], *committed: int) -> bool:
        job = Drafts().job([*base, *committed], until=0, base=len(base))
        return text.goes_on(TokenPrefix(kept), job)

    assert goes_on([1, 2], [1, 2], 3, 4, 5)
    assert goes_on([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 6)
    assert goes_on([1, 2, 3, 4], [1, 2, 3, 4])
    assert goes_on([], [1, 2, 3], 4, 5), "the state may lack what the text has"
    assert goes_on([1], [1, 2, 3, 4])
    assert not goes_on([1, 2], [1, 2], 3, 5)
    assert not goes_on([1, 2], [1, 2], 3)
    assert not goes_on([1, 9, 3, 4, 5], [1, 9, 3, 4, 5], 6)
    assert not goes_on([], [1, 9, 3], 4)


def test_what_is_committed_is_found_once_it_is_indexed() -> None:
    text, _ = text_of(1, 2, 3, 1, 2)
    ((source, end),) = text.ends()
    assert end.following() is None
    assert text.catch_up()
    ((source, end),) = text.ends()
    assert (source, end.following()) == (Source.GENERATION, (3, 2))


def test_a_long_text_is_indexed_some_at_a_time() -> None:
    text, _ = text_of(*range(2 * AT_ONCE + 1))
    assert [text.catch_up() for _ in range(4)] == [False, False, True, True]


def test_of_a_very_long_text_the_last_ids_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation_text, "MOST_INDEXED", 3)
    text, _ = text_of(1, 2, 1, 3, 1)
    assert text.catch_up()
    ((_, end),) = text.ends()
    assert end.following() == (3, 1)


def test_what_copies_would_have_been_is_learned_from_the_output_alone() -> None:
    text, outcomes = text_of(1, 2, 3, 1, 2, 3, 1, 9, prompt_length=5)
    assert text.catch_up()
    assert outcomes.copies == [
        (Source.GENERATION, 2, True),
        (Source.GENERATION, 3, True),
        (Source.GENERATION, 4, False),
    ]


def test_outputs_of_others_are_learned_from_and_added_to() -> None:
    recent, other = RecentTexts(most_ids=1000), Writer(None)
    for token_id in (5, 6, 7):
        recent.write(other, token_id)
    text, outcomes = text_of(1, 5, 6, 7, recent=recent)
    assert text.catch_up()
    assert outcomes.copies == [(Source.RECENT, 1, True), (Source.RECENT, 2, True)]
    text.commit([8])
    assert text.catch_up()
    assert [end.following() for end in recent.ends(Writer(None), [6, 7])] == [(8, 2), None]


def test_what_is_indexed_anew_is_told_and_learned_from_once() -> None:
    recent = RecentTexts(most_ids=1000)
    text, outcomes = text_of(1, 5, 6, 5, 6, recent=recent)
    assert text.catch_up()
    seen = list(outcomes.copies)
    text.hold()
    assert text.indexed == 0
    assert not text.catch_up()
    assert not text.catching_up, "nobody waits for what does not come"
    text.commit([7])
    text.let_go()
    assert text.catch_up()
    assert text.indexed == text.size == 6
    assert outcomes.copies[: len(seen)] == seen
    assert [length for _, length, _ in outcomes.copies[len(seen) :]] == [2, 2], "of the last id"
    assert recent._newer.ids == 5


def test_the_prompt_is_told_to_nobody() -> None:
    recent = RecentTexts(most_ids=1000)
    text, _ = text_of(1, 2, 3, 4, 5, prompt_length=3, recent=recent)
    assert text.catch_up()
    assert [end.following() for end in recent.ends(Writer(None), [1, 2])] == [None, None]
    assert [end.following() for end in recent.ends(Writer(None), [4])] == [(5, 1), None]


def test_drawn_tokens_are_judged_up_to_the_first_that_differs() -> None:
    text, outcomes = text_of(1, 2)
    text.propose(2, Proposed(3, match=0))
    text.propose(3, Proposed(4))
    text.propose(4, Proposed(5, match=6))
    text.propose(5, Proposed(6, match=7))
    text.commit([3, 4])
    text.commit([9, 6])
    # The one behind was drawn below another token: nothing is known of it.
    assert outcomes.draws == [(0, True), (6, False)]


def test_a_known_chain_keeps_what_is_known_of_it() -> None:
    text, outcomes = text_of(1, 2)
    text.propose(2, Proposed(3, 0.4, match=0))
    assert text.keep(2, 3) == 0.4
    assert text.keep(3, 4) == 1.0
    text.commit([3, 4])
    assert outcomes.draws == [(0, True)]
