"""The suffix automaton tells what a search through the texts tells."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.suffix_automaton import REMEMBERED, ROOT, Cursor, SuffixAutomaton

IDS = st.integers(0, 2)


class Texts:
    """Texts that grow in turns, in an automaton and as they are."""

    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()
        self.written: list[tuple[int, int]] = []
        """Text and id, in the order of writing."""
        self.ends: dict[int, int] = {}

    def write(self, text: int, token_id: int) -> None:
        end = self.ends.get(text, ROOT)
        self.ends[text] = self.automaton.extend(end, token_id)
        self.written.append((text, token_id))

    def following(self, asked: Sequence[int]) -> tuple[int, int] | None:
        """By looking through all texts, from the longest end of `asked` down."""
        for length in range(len(asked), 0, -1):
            end = list(asked[-length:])
            texts: dict[int, list[int]] = {}
            latest = None
            for text, token_id in self.written:
                before = texts.setdefault(text, [])
                if before[-length:] == end:
                    latest = token_id
                before.append(token_id)
            if latest is not None:
                return latest, length
        return None


@settings(max_examples=300, deadline=None)
@given(st.lists(IDS, max_size=REMEMBERED))
def test_the_end_of_a_text_is_found_in_itself(token_ids: list[int]) -> None:
    texts = Texts()
    for place, token_id in enumerate(token_ids, start=1):
        texts.write(0, token_id)
        own = Cursor(texts.automaton, texts.ends[0])
        assert own.following() == texts.following(token_ids[:place])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), IDS), max_size=REMEMBERED),
    st.lists(IDS, min_size=1, max_size=8),
)
def test_another_text_is_found_in_texts_that_grew_in_turns(
    steps: list[tuple[int, int]], asked: list[int]
) -> None:
    texts = Texts()
    for text, token_id in steps:
        texts.write(text, token_id)
    cursor = Cursor(texts.automaton)
    for token_id in asked:
        cursor.advance(token_id)
    assert cursor.following() == texts.following(asked)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(IDS, st.tuples(st.integers(0, 1), IDS)), max_size=REMEMBERED),
)
def test_a_cursor_keeps_its_place_while_the_automaton_grows(
    steps: list[int | tuple[int, int]],
) -> None:
    """It may miss a longer end that came in the meantime, but tells nothing wrong."""
    texts, cursor, asked = Texts(), Cursor(SuffixAutomaton()), list[int]()
    cursor = Cursor(texts.automaton)
    for step in steps:
        if isinstance(step, tuple):
            texts.write(*step)
        else:
            cursor.advance(step)
            asked.append(step)
        found, longest = cursor.following(), texts.following(asked)
        if found is None:
            continue
        assert longest is not None
        assert found[1] <= longest[1]
        assert found == texts.following(asked[-found[1] :])


def test_a_copy_goes_its_own_way() -> None:
    texts = Texts()
    for token_id in (1, 2, 3, 1, 2, 4):
        texts.write(0, token_id)
    cursor = Cursor(texts.automaton)
    cursor.advance(1)
    twin = cursor.copy()
    twin.advance(2)
    assert cursor.following() == (2, 1)
    assert twin.following() == (4, 2)


def test_the_same_text_again_takes_no_more_room() -> None:
    texts = Texts()
    for token_id in range(100):
        texts.write(0, token_id)
    states = len(texts.automaton)
    for token_id in range(100):
        texts.write(1, token_id)
    assert len(texts.automaton) == states


@pytest.mark.parametrize("repeats", [1, 7])
def test_ends_of_one_id_over_and_over(repeats: int) -> None:
    texts = Texts()
    for _ in range(repeats * REMEMBERED):
        texts.write(0, 5)
    followed = Cursor(texts.automaton, texts.ends[0]).following()
    assert followed == (5, repeats * REMEMBERED - 1)
