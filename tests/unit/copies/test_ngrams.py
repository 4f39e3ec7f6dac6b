"""Prompt lookup tells what a search through the text tells."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.ngrams import LONGEST, SHORTEST, NGramEnd, NGramIndex

IDS = st.lists(st.integers(0, 2), max_size=30)


def following(text: Sequence[int], asked: Sequence[int]) -> int | None:
    """What came latest behind the last three ids of `asked`, else behind the last two."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        end = list(asked[-length:])
        places = [
            place for place in range(length, len(text)) if list(text[place - length : place]) == end
        ]
        if len(asked) >= length and places:
            return text[places[-1]]
    return None


def told(end: NGramEnd) -> int | None:
    found = end.following()
    return None if found is None else found[0]


def index_of(text: Sequence[int]) -> NGramIndex:
    index = NGramIndex()
    for token_id in text:
        index.extend(token_id)
    return index


@settings(max_examples=200, deadline=None)
@given(IDS, st.lists(st.integers(0, 2), max_size=6))
def test_what_followed_the_last_ids_is_found(text: list[int], more: list[int]) -> None:
    end = index_of(text).end()
    assert told(end) == following(text, text)
    for place, token_id in enumerate(more, start=1):
        twin = end.copy()
        end.advance(token_id)
        assert told(end) == following(text, [*text, *more[:place]])
        assert told(twin) == following(text, [*text, *more[: place - 1]])


def test_the_longer_the_text_has_been_foreseen_the_more_ids_agree() -> None:
    song = [1, 2, 3, 4, 5, 6, 7]
    end = index_of([*song, 0, 1, 2]).end()
    lengths = []
    for token_id in song[2:]:
        found = end.following()
        assert found is not None
        assert found[0] == token_id
        lengths.append(found[1])
        end.advance(token_id)
    assert lengths == [2, 3, 4, 5, 6]
    end.advance(9)
    assert end.following() is None
    for token_id in (1, 2):
        end.advance(token_id)
    assert end.following() == (3, 2)
