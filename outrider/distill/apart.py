"""What is held out, and what is learnt from: nothing is both."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import TypeVar

from outrider.bench.prompts import Prompt, read_prompts
from outrider.distill.errors import DistillError
from outrider.distill.plan import DistillPlan

HELD_OUT_SHARE = 0.05

T = TypeVar("T", bound=Hashable)


def apart(items: Sequence[T], *, most: int, seed: int) -> tuple[list[T], list[T]]:
    """A twentieth by chance, `most` at most and each once; and all others, mixed, as often as they
    come. Of less than two different ones none is held out."""
    mixed = list(items)
    random.Random(f"held out {seed}").shuffle(mixed)
    different = list(dict.fromkeys(mixed))
    share = max(1, int(len(different) * HELD_OUT_SHARE)) if len(different) > 1 else 0
    aside = different[: min(most, share)]
    return aside, _without(mixed, aside)


def prompts_apart(plan: DistillPlan) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts held out, and those learnt from. Raises DistillError and PromptFileError."""
    prompts = read_prompts(plan.prompts) if plan.prompts else []
    if plan.held_out is None:
        return apart(prompts, most=plan.held_out_texts, seed=plan.seed)
    aside = list(dict.fromkeys(read_prompts(plan.held_out)))
    others = _without(prompts, aside)
    if prompts and not others:
        raise DistillError(f"{plan.held_out}: holds out every prompt of {plan.prompts}")
    return aside, others


def _without(items: Sequence[T], aside: Sequence[T]) -> list[T]:
    known = set(aside)
    return [item for item in items if item not in known]
