"""Which part of the vocabulary a draft has: what the target says most often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from outrider.distill.lesson import Lesson
from outrider.distill.losses import Laws


def frequent_ids(
    lessons: Iterable[Lesson], *, vocabulary_size: int, count: int, always: Iterable[int]
) -> torch.Tensor:
    """The `count` ids that are most likely on average, rising, int64; `always` are among them.

    An id counts with the probability that the laws give it: that says more than the one id that
    was written at each place.
    """
    mass = torch.zeros(vocabulary_size, dtype=torch.float64)
    for lesson in lessons:
        mass.index_add_(0, lesson.law_ids.flatten().long(), lesson.law_probs.flatten().double())
    mass[list(always)] = torch.inf
    # A fixed order among equals: the lower id.
    order = mass.sort(descending=True, stable=True).indices[: min(count, vocabulary_size)]
    return order.sort().values


class DraftColumns:
    """Finds the column of an id in a draft's vocabulary."""

    def __init__(self, token_ids: torch.Tensor, *, vocabulary_size: int) -> None:
        """`token_ids` int64 [columns], rising."""
        self.token_ids = token_ids
        self._column = torch.full((vocabulary_size,), -1, dtype=torch.int64)
        self._column[token_ids] = torch.arange(token_ids.numel())

    def laws(self, law_ids: torch.Tensor, law_probs: torch.Tensor) -> Laws:
        """Laws [places, ids] of a Lesson over these columns.

        Mass of ids that there is no column for is shared out among the others: no draft with this
        vocabulary can have it.
        """
        columns = self._column[law_ids.long()]
        known = columns >= 0
        probs = law_probs.float()
        missing = torch.where(known, 0.0, probs).sum(dim=1, keepdim=True).clamp(max=0.999)
        probs = torch.where(known, probs / (1.0 - missing), 0.0)
        return Laws(columns.clamp(min=0), probs)

    def covered(self, lessons: Sequence[Lesson]) -> float:
        """Share of the laws' named mass that has a column."""
        total = inside = 0.0
        for lesson in lessons:
            probs = lesson.law_probs.float()
            total += float(probs.sum())
            inside += float(probs[self._column[lesson.law_ids.long()] >= 0].sum())
        return inside / total if total else 0.0
