"""Batches: every lesson once in each epoch, in an order that the seed fixes."""

from __future__ import annotations

from collections import Counter

import torch

from outrider.distill.batches import PADDING_ID, LessonBatch, batches, collate
from outrider.distill.lesson import Lesson
from tests.unit.distill.lessons import lesson

LESSONS = [lesson(4 + number % 23, begin=1 + number % 3, seed=number) for number in range(200)]


def rows(batch: LessonBatch) -> list[list[int]]:
    return [[int(each) for each in row] for row in batch.token_ids]


def starts(all_batches: list[LessonBatch]) -> Counter[tuple[int, ...]]:
    """The first four ids of each lesson, which no two of these share."""
    return Counter(tuple(row[:4]) for batch in all_batches for row in rows(batch))


def test_each_lesson_comes_once_in_an_epoch() -> None:
    expected = Counter(tuple(one.token_ids[:4]) for one in LESSONS)
    assert max(expected.values()) == 1
    assert starts(list(batches(LESSONS, tokens=100, seed=1, epoch=0))) == expected


def test_no_batch_is_larger_than_it_may_be() -> None:
    for batch in batches(LESSONS, tokens=100, seed=1, epoch=0):
        assert batch.token_ids.numel() <= 100
    alone = list(batches([lesson(50)], tokens=10, seed=1, epoch=0))
    assert [batch.token_ids.shape for batch in alone] == [(1, 50)]


def test_little_is_padding() -> None:
    all_batches = list(batches(LESSONS, tokens=100, seed=1, epoch=0))
    cells = sum(batch.token_ids.numel() for batch in all_batches)
    assert sum(batch.tokens for batch in all_batches) > 0.9 * cells


def test_seed_and_epoch_fix_the_order() -> None:
    def order(seed: int, epoch: int) -> list[list[list[int]]]:
        return [rows(one) for one in batches(LESSONS, tokens=100, seed=seed, epoch=epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_places_are_those_before_the_ids_that_laws_tell_of() -> None:
    short, long = lesson(5, begin=2, seed=1), lesson(7, begin=3, seed=2)
    batch = collate([short, long])
    flat = batch.token_ids.flatten()
    assert flat[batch.places].tolist() == [*short.token_ids[1:4], *long.token_ids[2:6]]
    assert torch.equal(batch.law_ids, torch.cat([short.law_ids, long.law_ids]))
    assert batch.tokens == 12
    assert batch.token_ids[0, 5:].tolist() == [PADDING_ID] * 2


def test_places_of_a_lesson_are_its_ids_behind_the_beginning() -> None:
    one: Lesson = lesson(9, begin=4)
    assert one.places == 5 == one.law_ids.shape[0]
