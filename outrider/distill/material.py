"""What is learnt from and judged by: written by the target or by the user, kept on disk."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from outrider.bench.prompts import Prompt
from outrider.distill.apart import apart, prompts_apart
from outrider.distill.assignments import Curriculum, assignment, check_room
from outrider.distill.chat_form import ChatForm
from outrider.distill.corpus import Corpus
from outrider.distill.errors import DistillError
from outrider.distill.judging import HeldOut
from outrider.distill.lesson import Lesson
from outrider.distill.plan import DistillPlan
from outrider.distill.reading import read, texts_of
from outrider.distill.trying import SLACK
from outrider.distill.writing import Assignment, write
from outrider.engine.device_memory import machine_memory
from outrider.engine.loading import LoadedModel

READ_IN_PART = 256
TRIED_AT_ONCE = 2
"""Generations whose state a trial of the draft may have at the same time."""


class Progress(Protocol):
    """Is told what is done, how many tokens of it are, and how many there will be."""

    def __call__(self, what: str, tokens: int, of: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Material:
    """Lessons, and those that are held out. `trial_prompts`: ids that real generations begin
    with when the draft is tried."""

    lessons: Sequence[Lesson]
    held_out: HeldOut
    trial_prompts: Sequence[Sequence[int]]


class Gathering:
    """Writes and reads what is missing; all else is there from an earlier run."""

    def __init__(
        self, plan: DistillPlan, target: LoadedModel, form: ChatForm, progress: Progress
    ) -> None:
        self._plan = plan
        self._target = target
        self._form = form
        self._progress = progress
        self._corpus = Corpus(plan.work / "corpus")
        self._held_out_prompts, self._prompts = prompts_apart(plan)
        context = target.model.context_length
        longest = min(plan.longest * 2, context)
        self._texts = [
            tuple(piece) for path in plan.texts for piece in texts_of(path, form, longest=longest)
        ]
        self._chats = bool(plan.prompts) or form.has_template
        if not self._chats and not self._texts:
            form.user_turn()
        begin = 0
        if self._chats:
            begin = check_room(self._asked(), form, plan.longest, context=context)
        self._make_room(begin)

    def gather(self) -> Material:
        """All that there is to learn from. Raises DistillError; what was made stays."""
        lessons: list[Lesson] = []
        if self._chats:
            held_out = self._write_held_out()
            lessons += self._write()
        most = 0 if self._chats else self._plan.held_out_texts
        aside, pieces = apart(self._texts, most=most, seed=self._plan.seed)
        if not self._chats:
            if not aside:
                raise DistillError("the texts are too short to hold a part of them out")
            read_aside = list(self._read("held-out-text", aside))
            held_out = HeldOut(read_aside, read_aside)
        lessons += self._read("text", pieces)
        begin = [one.token_ids[: max(one.begin, 8)] for one in held_out.drawn]
        return Material(lessons, held_out, begin)

    def _make_room(self, begin: int) -> None:
        """KV state of all that is written side by side, and no more: what teaches the draft lives
        beside it. `begin`: the most ids before an answer."""
        plan, model = self._plan, self._target.model
        blocks_for = model.kv.layout.blocks_for
        longest = begin + plan.longest
        blocks = max(
            plan.side_by_side * blocks_for(longest) if self._chats else 0,
            blocks_for(max(map(len, self._texts), default=0)),
            TRIED_AT_ONCE * blocks_for(longest + plan.verify_tokens + SLACK),
        )
        size = blocks * model.kv.layout.block_bytes
        try:
            if model.device.type == "cpu" and size > machine_memory():
                raise RuntimeError
            model.resize_kv(blocks)
        except RuntimeError as error:
            raise DistillError(
                f"--side-by-side: {plan.side_by_side} texts of {longest} tokens take {size >> 20} "
                f"MiB of KV state, more than there is: give fewer, or a shorter --longest"
            ) from error

    def _asked(self) -> Sequence[Prompt | None]:
        """All prompts; None stands for turns of the target's own."""
        asked = [*self._held_out_prompts, *self._prompts]
        own = self._plan.own_turns > 0 or not (self._prompts and self._held_out_prompts)
        return [*asked, None] if own else asked

    def _write_held_out(self) -> HeldOut:
        prompts = self._held_out_prompts
        asked: Sequence[Prompt | None] = prompts or [None] * self._plan.held_out_texts
        parts = []
        for name, temperature in (("greedy", 0.0), ("drawn", 1.0)):
            assignments = [
                assignment(self._form, prompt, temperature=temperature, longest=self._plan.longest)
                for prompt in asked
            ]
            about = {**self._about(prompts), "held_out": temperature, "texts": len(asked)}
            parts.append(self._written(f"held-out-{name}", assignments, about, seed=-1))
        return HeldOut(*parts)

    def _write(self) -> Iterator[Lesson]:
        plan, done, number = self._plan, 0, 0
        curriculum = Curriculum(self._form, self._prompts, plan.own_turns, plan.longest, plan.seed)
        while done < plan.written_tokens:
            assignments = curriculum.assignments(number * plan.texts_in_part, plan.texts_in_part)
            about = {**self._about(self._prompts), "own_turns": plan.own_turns, "part": number}
            lessons = self._written(f"written-{number:05d}", assignments, about, seed=number)
            if not lessons:
                raise DistillError("the target writes nothing: it ends every turn at once")
            done += sum(lesson.places for lesson in lessons)
            number += 1
            self._progress("written", min(done, plan.written_tokens), plan.written_tokens)
            yield from lessons

    def _written(
        self, name: str, assignments: Sequence[Assignment], about: Mapping[str, Any], *, seed: int
    ) -> list[Lesson]:
        if not self._corpus.has(name, about):
            generator = torch.Generator().manual_seed(hash_seed(self._plan.seed, seed))
            lessons = write(
                self._target.model,
                assignments,
                side_by_side=self._plan.side_by_side,
                ends=frozenset(self._target.eos_token_ids),
                generator=generator,
                progress=partial(
                    self._progress,
                    f"writing {name}",
                    of=len(assignments) * self._plan.longest,
                ),
            )
            if not lessons:
                return []
            self._corpus.put(name, lessons, about)
        return list(self._corpus.lessons(name))

    def _read(self, name: str, pieces: Sequence[Sequence[int]]) -> Iterator[Lesson]:
        for start in range(0, len(pieces), READ_IN_PART):
            part = pieces[start : start + READ_IN_PART]
            part_name = f"{name}-{start // READ_IN_PART:05d}"
            digest = hashlib.sha256(repr([list(piece) for piece in part]).encode()).hexdigest()
            about = {"weights": self._target.weights_digest, "text": digest}
            if not self._corpus.has(part_name, about):
                told = partial(self._progress, f"reading {part_name}", of=sum(map(len, part)))
                lessons = read(self._target.model, part, progress=told)
                self._corpus.put(part_name, lessons, about)
            yield from self._corpus.lessons(part_name)

    def _about(self, prompts: Sequence[Prompt]) -> dict[str, Any]:
        plan = self._plan
        return {
            "weights": self._target.weights_digest,
            "prompts": hashlib.sha256(repr(list(prompts)).encode()).hexdigest(),
            "longest": plan.longest,
            "seed": plan.seed,
            "side_by_side": plan.side_by_side,
        }


def hash_seed(*numbers: int) -> int:
    """63 bits that the numbers fix."""
    return random.Random(" ".join(map(str, numbers))).getrandbits(63)
