"""What generations of one scope may copy from each other's outputs."""

from __future__ import annotations

from collections.abc import Sequence

from draft_service.recent_texts import RecentTexts, Writer

TEXT = [1, 2, 3, 4, 5, 6]


def write(texts: RecentTexts, writer: Writer, token_ids: Sequence[int]) -> None:
    for token_id in token_ids:
        texts.write(writer, token_id)


def found(texts: RecentTexts, writer: Writer, token_ids: Sequence[int]) -> list[tuple[int, int]]:
    """What may follow, by each volume that knows something."""
    told = [end.following() for end in texts.ends(writer, token_ids)]
    return [each for each in told if each is not None]


def test_what_others_wrote_is_found() -> None:
    texts = RecentTexts(most_ids=1000)
    write(texts, Writer(1), TEXT)
    assert found(texts, Writer(2), [9, 2, 3]) == [(4, 2)]


def test_texts_that_grow_in_turns_stay_apart() -> None:
    texts, one, other = RecentTexts(most_ids=1000), Writer(1), Writer(2)
    for a, b in zip(TEXT, reversed(TEXT), strict=True):
        texts.write(one, a)
        texts.write(other, b)
    assert found(texts, Writer(None), [1, 2]) == [(3, 2)]
    assert found(texts, Writer(None), [5, 4]) == [(3, 2)]


def test_what_the_same_seed_wrote_is_not_found() -> None:
    texts = RecentTexts(most_ids=1000)
    write(texts, Writer(7), TEXT)
    assert found(texts, Writer(7), [2, 3]) == []
    assert found(texts, Writer(8), [2, 3]) == [(4, 2)]


def test_of_two_with_one_seed_the_later_one_does_not_write_either() -> None:
    texts, first, second = RecentTexts(most_ids=1000), Writer(7), Writer(7)
    assert found(texts, first, []) == []
    write(texts, second, TEXT)
    assert found(texts, first, [2, 3]) == []
    write(texts, first, TEXT)
    assert found(texts, first, [2, 3]) == [(4, 2)]
    assert found(texts, second, [2, 3]) == []


def test_generations_that_only_read_take_no_room_for_ever() -> None:
    texts = RecentTexts(most_ids=100)
    write(texts, Writer(7), TEXT)
    assert found(texts, Writer(8), [2, 3]) == [(4, 2)]
    for seed in range(1000, 2000):
        assert len(texts.ends(Writer(seed), [2])) == 2
    assert max(volume.readers for volume in (texts._newer, texts._older)) <= 100
    assert found(texts, Writer(8), [2, 3]) == [], "it went with those who had read it"


def test_what_no_draws_decide_is_for_all() -> None:
    texts = RecentTexts(most_ids=1000)
    write(texts, Writer(None), TEXT)
    assert found(texts, Writer(None), [2, 3]) == [(4, 2)]
    assert found(texts, Writer(7), [2, 3]) == [(4, 2)]


def test_the_oldest_texts_are_forgotten() -> None:
    texts, reader = RecentTexts(most_ids=60), Writer(None)
    write(texts, Writer(None), TEXT)
    write(texts, Writer(None), range(100, 125))
    assert found(texts, reader, [2, 3]) == [(4, 2)]
    write(texts, Writer(None), range(200, 240))
    assert found(texts, reader, [2, 3]) == []
    assert found(texts, reader, [238]) == [(239, 1)]
