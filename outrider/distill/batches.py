"""Lessons in batches: an order that a seed fixes, little padding."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from outrider.distill.lesson import Lesson

PADDING_ID = 0
GROUP = 64
"""So many batches' worth of lessons are sorted by length among themselves."""


@dataclass(frozen=True, slots=True)
class LessonBatch:
    """Some lessons side by side.

    `token_ids`, int64 [lessons, longest]; what is behind a lesson's end is padding. `places`, int64
    [laws], index the flattened ids: what follows each of them is what `law_ids` and `law_probs`
    [laws, ids] tell of. `tokens`: ids without padding.
    """

    token_ids: torch.Tensor
    places: torch.Tensor
    law_ids: torch.Tensor
    law_probs: torch.Tensor
    tokens: int


def batches(
    lessons: Sequence[Lesson], *, tokens: int, seed: int, epoch: int
) -> Iterator[LessonBatch]:
    """All lessons once, in batches of at most `tokens` ids, padding included, or of one lesson."""
    chance = random.Random(f"{seed} {epoch}")
    order = list(range(len(lessons)))
    chance.shuffle(order)
    for group in _groups(order, lessons, tokens * GROUP):
        group.sort(key=lambda number: len(lessons[number].token_ids))
        parts = list(_parts(group, lessons, tokens))
        chance.shuffle(parts)
        for part in parts:
            yield collate([lessons[number] for number in part])


def collate(lessons: Sequence[Lesson]) -> LessonBatch:
    """These lessons as one batch."""
    longest = max(len(one.token_ids) for one in lessons)
    token_ids = torch.full((len(lessons), longest), PADDING_ID, dtype=torch.int64)
    places = []
    for row, lesson in enumerate(lessons):
        length = len(lesson.token_ids)
        token_ids[row, :length] = torch.tensor(lesson.token_ids, dtype=torch.int64)
        first = row * longest + lesson.begin - 1
        places.append(torch.arange(first, first + lesson.places))
    return LessonBatch(
        token_ids,
        torch.cat(places),
        torch.cat([one.law_ids for one in lessons]),
        torch.cat([one.law_probs for one in lessons]),
        sum(len(one.token_ids) for one in lessons),
    )


def _groups(order: Sequence[int], lessons: Sequence[Lesson], tokens: int) -> Iterator[list[int]]:
    group: list[int] = []
    held = 0
    for number in order:
        group.append(number)
        held += len(lessons[number].token_ids)
        if held >= tokens:
            yield group
            group, held = [], 0
    if group:
        yield group


def _parts(group: Sequence[int], lessons: Sequence[Lesson], tokens: int) -> Iterator[list[int]]:
    """Neighbours in a list that rises in length."""
    part: list[int] = []
    for number in group:
        if part and (len(part) + 1) * len(lessons[number].token_ids) > tokens:
            yield part
            part = []
        part.append(number)
    if part:
        yield part
