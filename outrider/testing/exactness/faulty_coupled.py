"""COUPLED decoders with a planted fault: what the experiments must find."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from outrider.draft_law import POINT_MASS
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word, gumbel, token_word
from outrider.testing.exactness.coupled import CoupledDecoder, plain_order
from outrider.testing.exactness.decoding import Request
from outrider.testing.exactness.in_process import seed_of
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement
from target_service.rejection import draw_from, residual


class OwnNoise(CoupledDecoder):
    """The definition, token by token; what noise a token gets is open to faults."""

    def judge(
        self,
        request: Request,
        prefix: TokenPrefix,
        drafts: Sequence[ProposedToken],
        *,
        want_bonus: bool,
    ) -> Judgement:
        """The target's choices as far as the draft tokens are the same."""
        rows = self.rows(request, prefix, [draft.token_id for draft in drafts])
        output: list[int] = []
        for draft, row in zip([*drafts, None], rows, strict=True):
            output.append(self.choose(request, row, committed=len(prefix), place=len(output)))
            if draft is None or draft.token_id != output[-1]:
                return self.end(request, row, draft, output=output, committed=len(prefix))
        raise AssertionError("the last row has no draft token")

    def choose(self, request: Request, row: torch.Tensor, *, committed: int, place: int) -> int:
        """The token of one row, `place` tokens behind the committed ones."""
        seed = derive_seed(Purpose.COUPLE, seed=seed_of(request), choice_index=0)
        scores = [
            math.log(prob) + self.noise(seed, committed=committed, place=place, token_id=token_id)
            if prob > 0.0
            else -math.inf
            for token_id, prob in enumerate(row.tolist())
        ]
        return scores.index(max(scores))

    def noise(self, couple_seed: int, *, committed: int, place: int, token_id: int) -> float:
        """g of one token."""
        return gumbel(token_word(couple_seed, position=committed + place, token_id=token_id))

    def end(
        self,
        request: Request,
        row: torch.Tensor,
        draft: ProposedToken | None,
        *,
        output: list[int],
        committed: int,
    ) -> Judgement:
        """The verdict once a choice is not that of the draft; None: there are no more drafts."""
        return Judgement(len(output) - 1, output)


class NoiseForAllTokens(OwnNoise):
    """All tokens of a position share one g, so that it decides nothing."""

    def noise(self, couple_seed: int, *, committed: int, place: int, token_id: int) -> float:
        """g of token 0."""
        return super().noise(couple_seed, committed=committed, place=place, token_id=0)


class NoiseForAllPositions(OwnNoise):
    """A token has the same g wherever it stands."""

    def noise(self, couple_seed: int, *, committed: int, place: int, token_id: int) -> float:
        """g at position 0."""
        return super().noise(couple_seed, committed=0, place=0, token_id=token_id)


class NoiseForWholeRounds(OwnNoise):
    """All rows of a round share the noise of the first."""

    def noise(self, couple_seed: int, *, committed: int, place: int, token_id: int) -> float:
        """g at the first row's position."""
        return super().noise(couple_seed, committed=committed, place=0, token_id=token_id)


class RecoveredFromResidual(OwnNoise):
    """After a mismatch REJECTION's correction of a chosen token is drawn, as if it were due."""

    def end(
        self,
        request: Request,
        row: torch.Tensor,
        draft: ProposedToken | None,
        *,
        output: list[int],
        committed: int,
    ) -> Judgement:
        """The last token is drawn from p without the draft token."""
        if draft is not None:
            seed = derive_seed(Purpose.RECOVER, seed=seed_of(request), choice_index=0)
            word = draw_word(seed, position=committed + len(output), digest=0)
            output[-1] = draw_from(residual(row, POINT_MASS, draft.token_id), word)
        return Judgement(len(output) - 1, output)


class SecondBestAccepted(OwnNoise):
    """A draft token is accepted too where it is the target's second choice."""

    def judge(
        self,
        request: Request,
        prefix: TokenPrefix,
        drafts: Sequence[ProposedToken],
        *,
        want_bonus: bool,
    ) -> Judgement:
        """Draft tokens as far as they are among the first two."""
        seed = derive_seed(Purpose.COUPLE, seed=seed_of(request), choice_index=0)
        rows = self.rows(request, prefix, [draft.token_id for draft in drafts])
        output: list[int] = []
        for draft, row in zip([*drafts, None], rows.tolist(), strict=True):
            order = plain_order(row, couple_seed=seed, position=len(prefix) + len(output))
            if draft is None or draft.token_id not in order[:2]:
                output.append(order[0])
                break
            output.append(draft.token_id)
        return Judgement(len(output) - 1, output)
