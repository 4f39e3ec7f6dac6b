"""COUPLED in one process: the target's production rule, and a draft that follows the definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from outrider.engine.columns import Columns
from outrider.engine.shaping import target_probs
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, gumbel, token_word
from outrider.testing.exactness.decoding import Request
from outrider.testing.exactness.in_process import InProcessDecoder, seed_of
from target_service import coupled
from target_service.draft_check import ProposedToken, check_ids
from target_service.judgement import Judgement


def plain_order(probs: Sequence[float], *, couple_seed: int, position: int) -> list[int]:
    """All ids whose p is above 0, the largest log p + g first: the definition, one by one."""
    scores = {
        token_id: math.log(prob)
        + gumbel(token_word(couple_seed, position=position, token_id=token_id))
        for token_id, prob in enumerate(probs)
        if prob > 0.0
    }
    return sorted(scores, key=lambda token_id: (-scores[token_id], token_id))


def meeting_probs(target_probs: torch.Tensor, draft_probs: torch.Tensor) -> torch.Tensor:
    """How likely target and draft both choose each token: [vocabulary], from p and q alike.

    1 ÷ Σ_y max(p(y) ÷ p(x), q(y) ÷ q(x)); the sum over x is the acceptance of COUPLED (Daliri,
    Musco and Suresh, 2024).
    """
    ratios = torch.maximum(
        target_probs[None, :] / target_probs[:, None], draft_probs[None, :] / draft_probs[:, None]
    )
    return torch.nan_to_num(1.0 / ratios.sum(dim=1))


@dataclass(frozen=True)
class CoupledDecoder(InProcessDecoder):
    """Draft and target choose by the same noise; a draft token carries no law."""

    draft_purpose: ClassVar[Purpose] = Purpose.COUPLE

    _draft_probs: dict[object, list[float]] = field(default_factory=dict)

    def draw(self, request: Request, prefix: TokenPrefix, seed: int) -> ProposedToken:
        """The draft's choice after `prefix`."""
        key = self._key(prefix)
        if key not in self._draft_probs:
            probs = target_probs(
                self.pair.draft_logits(prefix.token_ids)[None],
                self.draft_options(),
                columns=Columns(self.pair.vocabulary_size),
                token_ids=prefix.token_ids,
                draft_token_ids=(),
                prompt_length=len(request.prompt_token_ids),
            )
            self._draft_probs[key] = probs[0].tolist()
        order = plain_order(self._draft_probs[key], couple_seed=seed, position=len(prefix))
        return ProposedToken(order[0], None)

    def judge(
        self,
        request: Request,
        prefix: TokenPrefix,
        drafts: Sequence[ProposedToken],
        *,
        want_bonus: bool,
    ) -> Judgement:
        """The target's verdict; the bonus is always drawn."""
        self.check(request, prefix, drafts)
        return coupled.judge(
            self.rows(request, prefix, [draft.token_id for draft in drafts]),
            drafts,
            columns=Columns(self.pair.vocabulary_size),
            seed=seed_of(request),
            choice_index=0,
            position=len(prefix),
            stop_token_ids=(),
        )

    def check(self, request: Request, prefix: TokenPrefix, drafts: Sequence[ProposedToken]) -> None:
        """The target's check, which asks for no law."""
        invalid = check_ids(drafts, position=len(prefix), vocabulary_size=self.pair.vocabulary_size)
        if invalid is not None:
            raise AssertionError(f"the draft's own token does not pass: {invalid}")
