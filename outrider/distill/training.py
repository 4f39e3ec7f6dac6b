"""Teaching a student: one step after the other, each fixed by the seed and what came before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from outrider.distill.batches import LessonBatch, batches
from outrider.distill.errors import DistillError
from outrider.distill.lesson import Lesson
from outrider.distill.losses import Loss
from outrider.distill.optimizer import Optimizer
from outrider.distill.schedule import Schedule
from outrider.distill.student import Student
from outrider.distill.vocabulary import DraftColumns

LARGEST_GRADIENT = 1.0


@dataclass(slots=True)
class Place:
    """How far the teaching is. `batch`: batches of the `epoch` that are done."""

    steps: int = 0
    tokens: int = 0
    epoch: int = 0
    batch: int = 0


class Training:
    """A student on its way through the lessons."""

    def __init__(
        self,
        student: Student,
        lessons: Sequence[Lesson],
        *,
        columns: DraftColumns,
        loss: Loss,
        schedule: Schedule,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self.student = student
        self.schedule = schedule
        self.place = Place()
        self._lessons = lessons
        self._columns = columns
        self._loss = loss
        self._batch_tokens = batch_tokens
        self._seed = seed
        self.optimizer = Optimizer(student.taught.values())
        self._batches: Iterator[LessonBatch] | None = None

    @property
    def done(self) -> bool:
        """All tokens of the schedule were learnt from."""
        return self.place.tokens >= self.schedule.tokens

    def go_on_from(self, place: Place) -> None:
        """Stands at another place of the lessons."""
        self.place = place
        self._batches = None

    def step(self) -> float:
        """One batch; the mean loss of its places before it was learnt from.

        Raises DistillError when that is no number.
        """
        batch = self._next_batch()
        device = self.student.model.device
        with self.numbers():
            logits = self.student.logits(batch.token_ids.to(device), batch.places.to(device))
        laws = self._columns.laws(batch.law_ids, batch.law_probs)
        loss = self._loss(laws.to(device), logits).mean()
        value = float(loss.detach())
        if value != value:
            raise DistillError("the loss is no number any more: try a smaller --learning-rate")
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.student.taught.values(), LARGEST_GRADIENT)
        self.optimizer.step(self.schedule.rate_at(self.place.tokens))
        self.place.steps += 1
        self.place.tokens += batch.tokens
        self.place.batch += 1
        return value

    def numbers(self) -> AbstractContextManager[object]:
        """The numbers in which forwards are computed: bfloat16 products, float32 weights."""
        return torch.autocast(self.student.model.device.type, torch.bfloat16)

    def _next_batch(self) -> LessonBatch:
        while True:
            if self._batches is None:
                self._batches = batches(
                    self._lessons,
                    tokens=self._batch_tokens,
                    seed=self._seed,
                    epoch=self.place.epoch,
                )
                for _ in range(self.place.batch):
                    next(self._batches)
            batch = next(self._batches, None)
            if batch is not None:
                return batch
            self._batches = None
            self.place.epoch, self.place.batch = self.place.epoch + 1, 0
