"""COUPLED: the target's own choice is the output; a draft token is right when it is that choice.

    the choice at position i is the token with the largest log p + g, g being noise of (seed, i, id)

The noise makes it a draw from p, and a draft that uses the same noise mostly chooses the same. As
the choice never depends on the draft, the output is a function of target, prompt, sampling and
seed alone (Daliri, Musco and Suresh, "Coupling without communication and drafter-invariant
speculative decoding", 2024).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.coupling import coupled_choices
from outrider.randomness import Purpose, derive_seed
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement


def judge(
    target_probs: torch.Tensor,
    drafts: Sequence[ProposedToken],
    *,
    columns: Columns,
    seed: int,
    choice_index: int,
    position: int,
    stop_token_ids: Collection[int],
) -> Judgement:
    """Judges draft tokens, a chain, against `target_probs` [up to len(drafts) + 1, columns].

    `position` is that of the first draft token; row j is p after those before it and the first j
    draft tokens. After full acceptance the choice of the row behind them is output too, if there
    is one: a bonus costs nothing here. Ends at the first accepted stop id. A draft token needs no
    law.
    """
    couple_seed = derive_seed(Purpose.COUPLE, seed=seed, choice_index=choice_index)
    choices = coupled_choices(
        target_probs, columns=columns, couple_seed=couple_seed, position=position
    )
    output: list[int] = []
    for place, choice in enumerate(choices):
        output.append(choice)
        if place == len(drafts) or drafts[place].token_id != choice:
            return Judgement(place, output)
        if choice in stop_token_ids:
            break
    return Judgement(len(output), output)
