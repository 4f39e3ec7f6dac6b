"""The part of the vocabulary that a draft has."""

from __future__ import annotations

import torch

from outrider.distill.lesson import Lesson
from outrider.distill.vocabulary import DraftColumns, frequent_ids


def of_laws(ids: list[list[int]], probs: list[list[float]]) -> Lesson:
    length = len(ids) + 1
    return Lesson(
        [0] * length,
        1,
        torch.tensor(ids, dtype=torch.int32),
        torch.tensor(probs, dtype=torch.float16),
    )


def test_the_ids_with_most_mass_are_taken_and_some_always() -> None:
    lessons = [of_laws([[5, 6], [5, 7]], [[0.9, 0.1], [0.25, 0.75]])]
    ids = frequent_ids(lessons, vocabulary_size=10, count=3, always=[2])
    assert ids.tolist() == [2, 5, 7]


def test_the_lower_of_equals_comes_first() -> None:
    lessons = [of_laws([[8, 4]], [[0.5, 0.5]])]
    assert frequent_ids(lessons, vocabulary_size=10, count=1, always=[]).tolist() == [4]


def test_no_more_ids_than_there_are() -> None:
    lessons = [of_laws([[1, 2]], [[0.5, 0.5]])]
    ids = frequent_ids(lessons, vocabulary_size=4, count=100, always=[])
    assert ids.tolist() == [0, 1, 2, 3]


def test_mass_of_ids_without_a_column_is_shared_out() -> None:
    columns = DraftColumns(torch.tensor([2, 5, 7]), vocabulary_size=10)
    laws = columns.laws(torch.tensor([[5, 6, 7]]), torch.tensor([[0.5, 0.2, 0.1]]))
    assert laws.columns[0, [0, 2]].tolist() == [1, 2]
    torch.testing.assert_close(laws.probs, torch.tensor([[0.625, 0.0, 0.125]]))


def test_what_is_covered() -> None:
    columns = DraftColumns(torch.tensor([5, 7]), vocabulary_size=10)
    lessons = [of_laws([[5, 6], [7, 6]], [[0.5, 0.5], [0.25, 0.75]])]
    assert columns.covered(lessons) == 0.375
