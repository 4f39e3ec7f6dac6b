"""One draft token: q is shaped, cut, turned into integers, drawn from and reported, in that order.

What is reported is what was drawn from. Cutting only the report would change the output's law;
cutting before the draw costs acceptance and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import torch

from draft_service.alternatives import Alternative, coupled_alternatives, likely_alternatives
from outrider.draft_law import MAX_CANDIDATES, MAX_WEIGHT, POINT_MASS, CutLaw, DraftLaw
from outrider.engine.columns import Columns
from outrider.engine.coupling import coupled_order
from outrider.engine.leaders import leaders
from outrider.engine.penalties import changes_logits
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

    `alternatives` for its place, the likeliest first, if they were wanted. `copied`: it was not
    drawn at all, but taken from earlier text.
    """

    token_id: int
    law: DraftLaw | None = POINT_MASS
    alternatives: tuple[Alternative, ...] = field(default=(), compare=False)
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Proposer:
    """Chooses the draft tokens of one stream.

    `derived_seed` is the seed of the draft's own draws, or of the noise it shares; None gives the
    most likely tokens, as point masses.
    """

    options: SamplingOptions
    columns: Columns
    prompt_length: int
    derived_seed: int | None
    cut: CandidateCut
    rule: DraftRule = DraftRule.DRAWN

    def tokens(
        self,
        logits: Sequence[torch.Tensor],
        prefixes: Sequence[TokenPrefix],
        *,
        alternatives: int = 0,
    ) -> list[DraftedToken]:
        """The token to follow each prefix: prompt, output and draft tokens so far.

        `logits`, each [columns or more], are what the model says follows it. `alternatives`: most
        other tokens to be named beside it. Raises NumericalFailure when some are no law: NaN,
        +inf, or nothing but -inf.
        """
        if not logits:
            return []
        rows = torch.stack(tuple(logits))[:, : len(self.columns)]
        draft_probs = self._shaped(rows, prefixes, self.options)
        if self.options.greedy or self.derived_seed is None:
            return self._likeliest(rows, prefixes, draft_probs, alternatives)
        if self.rule is DraftRule.COUPLED:
            return [
                self._coupled(probs, len(prefix), self.derived_seed, alternatives)
                for probs, prefix in zip(draft_probs, prefixes, strict=True)
            ]
        laws = cut_laws(draft_probs, columns=self.columns, cut=self.cut)
        tokens = [
            law.draw(_word(self.derived_seed, prefix))
            for law, prefix in zip(laws, prefixes, strict=True)
        ]
        others = likely_alternatives(draft_probs, tokens, columns=self.columns, count=alternatives)
        return [DraftedToken(*each) for each in zip(tokens, laws, others, strict=True)]

    def _likeliest(
        self,
        rows: torch.Tensor,
        prefixes: Sequence[TokenPrefix],
        draft_probs: torch.Tensor,
        alternatives: int,
    ) -> list[DraftedToken]:
        tokens = self.columns.token_ids(draft_probs.argmax(dim=1)).tolist()
        if alternatives and self.options.greedy:
            draft_probs = self._shaped(rows, prefixes, replace(self.options, temperature=1.0))
        others = likely_alternatives(draft_probs, tokens, columns=self.columns, count=alternatives)
        return [
            DraftedToken(token, POINT_MASS, beside)
            for token, beside in zip(tokens, others, strict=True)
        ]

    def _coupled(
        self, probs: torch.Tensor, position: int, seed: int, alternatives: int
    ) -> DraftedToken:
        order = coupled_order(
            probs,
            columns=self.columns,
            couple_seed=seed,
            position=position,
            count=1 + alternatives,
        )
        return DraftedToken(order[0], None, coupled_alternatives(order))

    def _shaped(
        self, rows: torch.Tensor, prefixes: Sequence[TokenPrefix], options: SamplingOptions
    ) -> torch.Tensor:
        """[rows, columns]. Where the prefix does not matter, all rows are shaped at once."""
        if changes_logits(options) and len(prefixes) > 1:
            pairs = zip(torch.split(rows, 1), prefixes, strict=True)
            return torch.cat([self._shaped(row, [prefix], options) for row, prefix in pairs])
        return target_probs(
            rows,
            options,
            columns=self.columns,
            token_ids=prefixes[0].token_ids,
            draft_token_ids=(),
            prompt_length=self.prompt_length,
        )


def cut_law(draft_probs: torch.Tensor, *, columns: Columns, cut: CandidateCut) -> CutLaw:
    """As `cut_laws`, of `draft_probs` [columns]."""
    (law,) = cut_laws(draft_probs[None], columns=columns, cut=cut)
    return law


def cut_laws(draft_probs: torch.Tensor, *, columns: Columns, cut: CandidateCut) -> list[CutLaw]:
    """The most likely tokens of each row, [rows, columns], with weights max(1, round(65535·q)).

    Most likely first, the lower id among equals; never a token with q = 0.
    """
    probs, places = leaders(draft_probs, min(cut.candidates, len(columns)))
    before = probs.cumsum(dim=1, dtype=torch.float64) - probs
    # The first token always stays: nothing comes before it.
    counts = ((before < cut.mass) & (probs > 0.0)).sum(dim=1).tolist()
    weights = (probs.double() * MAX_WEIGHT).round().clamp(min=1.0).long()
    return [
        CutLaw(token_ids=tuple(ids[:count]), weights=tuple(row[:count]))
        for ids, row, count in zip(
            columns.token_ids(places).tolist(), weights.tolist(), counts, strict=True
        )
    ]


def _word(seed: int, prefix: TokenPrefix) -> int:
    return draw_word(seed, position=len(prefix), digest=prefix.digest(len(prefix)))
