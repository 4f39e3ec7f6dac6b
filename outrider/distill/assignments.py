"""What the target is asked to write: which prompts, which temperatures, which turns of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.bench.prompts import Prompt
from outrider.distill.chat_form import ChatForm
from outrider.distill.errors import DistillError
from outrider.distill.writing import LONGEST_TURN, Assignment

TEMPERATURES = (0.0, 0.7, 0.0, 1.0)
"""In turn: half of what people ask for is answered greedily."""


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Prompts, and how much the target writes beside answering them.

    `own_turns`: the share of texts, 0 to 1, whose user's turn the target writes as well.
    """

    form: ChatForm
    prompts: Sequence[Prompt]
    own_turns: float
    longest: int
    seed: int

    def assignments(self, first: int, count: int) -> list[Assignment]:
        """Those of the texts `first` and on. Raises DistillError."""
        return [self._assignment(number) for number in range(first, first + count)]

    def _assignment(self, number: int) -> Assignment:
        chance = random.Random(f"{self.seed} {number}")
        temperature = chance.choice(TEMPERATURES)
        own_turn = not self.prompts or chance.random() < self.own_turns
        prompt = None if own_turn else chance.choice(self.prompts)
        return assignment(self.form, prompt, temperature=temperature, longest=self.longest)


def assignment(
    form: ChatForm, prompt: Prompt | None, *, temperature: float, longest: int
) -> Assignment:
    """An answer to that prompt; None: to a turn that the target writes too. Raises DistillError."""
    if prompt is None:
        return Assignment(*form.user_turn(), temperature, longest)
    messages = [{"role": one.role, "content": one.content} for one in prompt.messages]
    return Assignment(form.prompt(messages), None, temperature, longest)


def check_room(
    prompts: Sequence[Prompt | None], form: ChatForm, longest: int, *, context: int
) -> int:
    """The most ids before an answer. Raises DistillError unless an answer of `longest` ids to each
    prompt fits into `context`."""
    most = 0
    for prompt in prompts:
        one = assignment(form, prompt, temperature=0.0, longest=longest)
        turn = LONGEST_TURN + len(one.after_turn) if one.after_turn is not None else 0
        begin = len(one.opening) + turn
        if begin + longest > context:
            what = f'"{prompt.messages[-1].content[:30]} …"' if prompt else "a turn of its own"
            raise DistillError(
                f"an answer of {longest} tokens (--longest) after {begin} of prompt ({what}) is "
                f"more than the {context} that the target can read"
            )
        most = max(most, begin)
    return most
