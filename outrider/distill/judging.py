"""How good a draft is on text that it has not learnt from, by what the target said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from outrider.distill.batches import LessonBatch, collate
from outrider.distill.lesson import Lesson
from outrider.distill.losses import LOSSES
from outrider.distill.student import Student
from outrider.distill.vocabulary import DraftColumns

ROUND_LENGTH = 4
"""The draft length that tokens in a round are told for."""
SIDE_BY_SIDE = 8
DIGITS = 5
"""Of every figure, from the first: one that was kept and read again is the same."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Means over the places of some held-out texts, each seen with the text before it.

    `agreement`: the draft's most likely id is the target's. `overlap`: Σ min(p, q) at temperature
    1, the chance that REJECTION accepts there. Output tokens of a round of four draft tokens,
    from each place on: `greedy_tokens` if tokens are accepted where the two agree,
    `drawn_tokens` if with the chance of their place. `loss`: forward KL.
    """

    places: int
    agreement: float
    overlap: float
    greedy_tokens: float
    drawn_tokens: float
    loss: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of texts that the target wrote greedily, and of texts that it drew at temperature 1."""

    greedy: Likeness
    drawn: Likeness

    @property
    def score(self) -> float:
        """Output tokens of a round, half of all requests being greedy: the more the better."""
        return (self.greedy.greedy_tokens + self.drawn.drawn_tokens) / 2

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        figures = {"greedy": asdict(self.greedy), "drawn": asdict(self.drawn)}
        return {"score": round(self.score, DIGITS), **figures}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Lessons that are not taught."""

    greedy: Sequence[Lesson]
    drawn: Sequence[Lesson]


def judge(
    student: Student,
    held_out: HeldOut,
    *,
    columns: DraftColumns,
    numbers: AbstractContextManager[object],
) -> Judgement:
    """Holds a student against lessons that it is not taught. `numbers`: of its forwards."""
    return Judgement(
        _likeness(student, held_out.greedy, columns, numbers),
        _likeness(student, held_out.drawn, columns, numbers),
    )


@torch.no_grad()
def _likeness(
    student: Student,
    lessons: Sequence[Lesson],
    columns: DraftColumns,
    numbers: AbstractContextManager[object],
) -> Likeness:
    sums = torch.zeros(3, dtype=torch.float64)
    rounds = torch.zeros(2, dtype=torch.float64)
    places = starts = 0
    device = student.model.device
    for begin in range(0, len(lessons), SIDE_BY_SIDE):
        part = lessons[begin : begin + SIDE_BY_SIDE]
        batch = collate(part)
        with numbers:
            logits = student.logits(batch.token_ids.to(device), batch.places.to(device))
        logits = logits.float().cpu()
        agreed = (student.token_ids[logits.argmax(dim=1)] == batch.law_ids[:, 0]).float()
        overlap = _overlap(logits, batch, columns)
        laws = columns.laws(batch.law_ids, batch.law_probs)
        loss = LOSSES["forward-kl"](laws, logits)
        sums += torch.stack([one.double().sum() for one in (agreed, overlap, loss)])
        lengths = [lesson.places for lesson in part]
        for ways in zip(torch.split(agreed, lengths), torch.split(overlap, lengths), strict=True):
            rounds += torch.tensor([_round_tokens(one) for one in ways], dtype=torch.float64)
            starts += max(0, ways[0].numel() - ROUND_LENGTH + 1)
        places += logits.shape[0]
    agreement, common, loss_mean = (sums / max(1, places)).tolist()
    greedy_tokens, drawn_tokens = (rounds / max(1, starts)).tolist()
    means = (agreement, common, greedy_tokens, drawn_tokens, loss_mean)
    return Likeness(places, *(round(one, DIGITS) for one in means))


def _overlap(logits: torch.Tensor, batch: LessonBatch, columns: DraftColumns) -> torch.Tensor:
    """Σ min(p, q) over the ids that p names, [places]; p is not what columns make of it."""
    laws = columns.laws(batch.law_ids, batch.law_probs)
    target_probs = torch.where(laws.probs > 0.0, batch.law_probs.float(), 0.0)
    draft_probs = logits.softmax(dim=1).gather(1, laws.columns)
    return torch.minimum(draft_probs, target_probs).sum(dim=1)


def _round_tokens(chances: torch.Tensor) -> float:
    """Output tokens of a round that begins at each place where a whole one fits, summed."""
    count = chances.numel() - ROUND_LENGTH + 1
    if count <= 0:
        return 0.0
    survival = torch.ones(count)
    total = torch.ones(count)
    for place in range(ROUND_LENGTH):
        survival = survival * chances[place : place + count]
        total = total + survival
    return float(total.sum())


def from_dict(figures: Mapping[str, Any]) -> Judgement:
    """What `as_dict` gave."""
    return Judgement(Likeness(**figures["greedy"]), Likeness(**figures["drawn"]))
