"""Has the target write: answers to prompts, and where there are none the prompts too.

A chat model that is shown the opening of a user's turn writes one (Xu et al., 2024,
https://arxiv.org/abs/2406.08464). All texts grow side by side in the engine's batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch

from outrider.distill.lesson import Lesson, laws_of
from outrider.engine.model import Chunk, Model
from outrider.engine.model import Sequence as State

LONGEST_TURN = 96
"""Ids of a user's turn that the target writes; a longer one is ended there."""
TURN_TEMPERATURE = 1.0
"""All turns begin alike: the most likely one would be the same each time."""
COLDEST = 1e-3


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be written.

    `opening`: ids that stand before it. `after_turn`: None, then the answer follows at once; else
    a user's turn is written first, and these ids stand between it and the answer. `longest`: most
    ids of the answer. `temperature` 0: always the most likely id.
    """

    opening: Sequence[int]
    after_turn: Sequence[int] | None
    temperature: float
    longest: int


@dataclass(slots=True, eq=False)
class _Pen:
    """One text under way."""

    number: int
    assignment: Assignment
    state: State
    unread: list[int]
    token_ids: list[int]
    begin: int | None
    laws: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Ids that may still follow in this part."""
        if self.begin is None:
            return LONGEST_TURN - (len(self.token_ids) - len(self.assignment.opening))
        return self.assignment.longest - (len(self.token_ids) - self.begin)

    @property
    def temperature(self) -> float:
        """Of the part that is being written."""
        return TURN_TEMPERATURE if self.begin is None else self.assignment.temperature

    def write(self, token_id: int) -> None:
        """The next id."""
        self.token_ids.append(token_id)
        self.unread = [token_id]

    def answer(self) -> None:
        """The user's turn is over."""
        after = list(self.assignment.after_turn or ())
        self.token_ids += after
        self.unread = [*self.unread, *after]
        self.begin = len(self.token_ids)

    def lesson(self) -> Lesson:
        """The whole text."""
        ids, probs = (torch.stack(part) for part in zip(*self.laws, strict=True))
        return Lesson(self.token_ids, self.begin or 0, ids, probs)


def write(
    model: Model,
    assignments: Sequence[Assignment],
    *,
    side_by_side: int,
    ends: Collection[int],
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda ids: None,
) -> list[Lesson]:
    """The texts, in order; those that ended before their answer began are left out.

    `ends`: ids that end a turn or an answer; they belong to it. `progress` is told how many ids of
    answers there are after each step. The texts depend on the assignments, `side_by_side` and the
    generator's seed alone, as far as the model's arithmetic does.
    """
    waiting = deque(enumerate(assignments))
    pens: list[_Pen] = []
    done: dict[int, Lesson] = {}
    written = 0
    while waiting or pens:
        while waiting and len(pens) < side_by_side:
            pens.append(_pen(model, *waiting.popleft()))
        rows = model.forward([Chunk(pen.state, pen.unread, rows=1) for pen in pens])
        logits = torch.cat(rows).float()
        law_ids, law_probs = laws_of(logits)
        chosen = _choose(logits, [pen.temperature for pen in pens], generator)
        going_on = []
        for row, (pen, token_id) in enumerate(zip(pens, chosen, strict=True)):
            if pen.begin is None:
                going_on.append(pen)
                _go_on_with_turn(pen, token_id, ends)
                continue
            pen.laws.append((law_ids[row], law_probs[row]))
            pen.write(token_id)
            written += 1
            if token_id in ends or pen.room <= 0:
                done[pen.number] = pen.lesson()
                pen.state.clear()
            else:
                going_on.append(pen)
        pens = going_on
        progress(written)
    return [done[number] for number in sorted(done)]


def _pen(model: Model, number: int, assignment: Assignment) -> _Pen:
    opening = list(assignment.opening)
    begin = len(opening) if assignment.after_turn is None else None
    return _Pen(number, assignment, model.new_sequence(), opening, list(opening), begin)


def _go_on_with_turn(pen: _Pen, token_id: int, ends: Collection[int]) -> None:
    """The next id of a user's turn; what ends it is worded by the template."""
    if token_id in ends:
        pen.unread = []
        pen.answer()
        return
    pen.write(token_id)
    if pen.room <= 0:
        pen.answer()


def _choose(
    logits: torch.Tensor, temperatures: Sequence[float], generator: torch.Generator
) -> list[int]:
    """The next id of each row [rows, vocabulary]: the likeliest, or drawn where there is heat."""
    best = logits.argmax(dim=1)
    heat = torch.tensor(temperatures, device=logits.device).unsqueeze(1)
    top = logits.gather(1, best.unsqueeze(1))
    mass = ((logits - top) / heat.clamp(min=COLDEST)).exp_().cumsum(dim=1)
    place = torch.rand(len(temperatures), 1, generator=generator).to(logits.device)
    drawn = torch.searchsorted(mass, place * mass[:, -1:], right=True).squeeze(1)
    drawn = drawn.clamp(max=logits.shape[1] - 1)
    chosen: list[int] = torch.where(heat.squeeze(1) > 0.0, drawn, best).tolist()
    return chosen
