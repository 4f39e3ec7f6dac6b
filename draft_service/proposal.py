"""One draft token: q is shaped, cut, turned into integers, drawn from and reported, in that order.

What is reported is what was drawn from. Cutting only the report would change the output's law;
cutting before the draw costs acceptance and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

import torch

from draft_service.alternatives import Alternative, coupled_alternatives, likely_alternatives
from outrider.draft_law import MAX_CANDIDATES, MAX_WEIGHT, POINT_MASS, CutLaw, DraftLaw
from outrider.engine.columns import Columns
from outrider.engine.coupling import coupled_order
from outrider.engine.leaders import leaders
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.prefix import TokenPrefix
from outrider.randomness import draw_word


class DraftRule(Enum):
    """How a draft token is chosen, where drafts are not greedy."""

    DRAWN = auto()
    """Drawn from the cut q by the derived seed."""
    COUPLED = auto()
    """The largest log q + g of the uncut q, g being the noise that the target shares."""


@dataclass(frozen=True, slots=True)
class CandidateCut:
    """How much of q is kept: `candidates` (1 to 256), fewer once `mass` (above 0, to 1) is
    reached."""

    candidates: int = 40
    mass: float = 0.95

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise ValueError(f"candidates must be 1 to {MAX_CANDIDATES}, got {self.candidates}")
        if not 0.0 < self.mass <= 1.0:
            raise ValueError(f"mass must be above 0 and at most 1, got {self.mass}")


@dataclass(frozen=True, slots=True)
class DraftedToken:
    """A proposed token and what it was drawn from; `law` None: COUPLED needs none.

    `alternatives` for its place, the likeliest first, if they were wanted.
    """

    token_id: int
    law: DraftLaw | None = POINT_MASS
    alternatives: tuple[Alternative, ...] = field(default=(), compare=False)


def draw_token(
    logits: torch.Tensor,
    options: SamplingOptions,
    *,
    columns: Columns,
    prefix: TokenPrefix,
    prompt_length: int,
    derived_seed: int | None,
    vocabulary_size: int,
    cut: CandidateCut,
    rule: DraftRule = DraftRule.DRAWN,
    alternatives: int = 0,
) -> DraftedToken:
    """The token to follow `prefix`: prompt, output and draft tokens so far.

    `logits` [columns] are what the model says follows it. `derived_seed` is the seed of the
    draft's own draws, or of the noise it shares; None gives the most likely token, as a point
    mass. Ids from `vocabulary_size` (the target's) on are never proposed. `alternatives`: most
    other tokens to be named beside it. Raises NumericalFailure when `logits` are no law: NaN,
    +inf, or nothing but -inf.
    """
    columns = columns_below(columns, vocabulary_size)

    def shaped(options: SamplingOptions) -> torch.Tensor:
        return target_probs(
            logits[None, : len(columns)],
            options,
            columns=columns,
            token_ids=prefix.token_ids,
            draft_token_ids=(),
            prompt_length=prompt_length,
        )[0]

    draft_probs, position = shaped(options), len(prefix)
    if options.greedy or derived_seed is None:
        token_id = int(columns.token_ids(draft_probs.argmax()))
        if alternatives and options.greedy:
            draft_probs = shaped(replace(options, temperature=1.0))
        others = likely_alternatives(draft_probs, token_id, columns=columns, count=alternatives)
        return DraftedToken(token_id, POINT_MASS, others)
    if rule is DraftRule.COUPLED:
        order = coupled_order(
            draft_probs,
            columns=columns,
            couple_seed=derived_seed,
            position=position,
            count=1 + alternatives,
        )
        return DraftedToken(order[0], None, coupled_alternatives(order))
    law = cut_law(draft_probs, columns=columns, cut=cut)
    word = draw_word(derived_seed, position=position, digest=prefix.digest(position))
    token_id = law.draw(word)
    others = likely_alternatives(draft_probs, token_id, columns=columns, count=alternatives)
    return DraftedToken(token_id, law, others)


def cut_law(draft_probs: torch.Tensor, *, columns: Columns, cut: CandidateCut) -> CutLaw:
    """The most likely tokens of `draft_probs` [columns] with weights max(1, round(65535·q)).

    Most likely first, the lower id among equals; never a token with q = 0.
    """
    probs, places = leaders(draft_probs[None], min(cut.candidates, len(columns)))
    before = probs.cumsum(dim=1, dtype=torch.float64) - probs
    # The first token always stays: nothing comes before it.
    kept = (before < cut.mass) & (probs > 0.0)
    weights = (probs[kept].double() * MAX_WEIGHT).round().clamp(min=1.0)
    return CutLaw(
        token_ids=tuple(columns.token_ids(places[kept]).tolist()),
        weights=tuple(int(weight) for weight in weights.tolist()),
    )


def columns_below(columns: Columns, vocabulary_size: int) -> Columns:
    """The leading columns, those of ids below `vocabulary_size`."""
    if columns.size <= vocabulary_size:
        return columns
    subset = columns.subset
    if subset is not None:
        subset = subset[: int(torch.searchsorted(subset, vocabulary_size))]
    return Columns(vocabulary_size, subset)
