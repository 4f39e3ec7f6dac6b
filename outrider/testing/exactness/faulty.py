"""Decoders with a planted fault: what the experiments must find.

Faults inside the rule itself (a shared stream of random numbers, a wrong residual) are planted by
the tests that need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from draft_service.proposal import CandidateCut
from outrider.draft_law import CutLaw
from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.testing.exactness.decoding import Request, Round
from outrider.testing.exactness.in_process import InProcessDecoder
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement
from target_service.rejection import draw_from


@dataclass(frozen=True)
class OtherLawReported(InProcessDecoder):
    """The draft reports another law than it drew from: that of `reported_options` and
    `reported_cut`."""

    reported_options: SamplingOptions = field(default_factory=SamplingOptions)
    reported_cut: CandidateCut = field(default_factory=CandidateCut)
    _reported_laws: dict[object, CutLaw | int] = field(default_factory=dict)

    def draw(self, request: Request, prefix: TokenPrefix, seed: int) -> ProposedToken:
        """The right token with the wrong law."""
        token_id = super().draw(request, prefix, seed).token_id
        reported = self._reporter.draft_law(request, prefix)
        return ProposedToken(token_id, reported if isinstance(reported, CutLaw) else None)

    def check(self, request: Request, prefix: TokenPrefix, drafts: Sequence[ProposedToken]) -> None:
        """Looks away: the check would find most of these tokens."""

    @property
    def _reporter(self) -> InProcessDecoder:
        return InProcessDecoder(
            self.pair, self.reported_options, self.reported_cut, _laws=self._reported_laws
        )


class OnlyBonusShaped(InProcessDecoder):
    """Sampling options reach the bonus row alone; verified rows are plain softmax."""

    def shape(
        self,
        request: Request,
        logits: torch.Tensor,
        prefix: TokenPrefix,
        draft_ids: Sequence[int],
    ) -> torch.Tensor:
        """The last row as asked for, the others as if nothing had been asked."""
        plain = target_probs(
            logits,
            SamplingOptions(),
            columns=Columns(self.pair.vocabulary_size),
            token_ids=prefix.token_ids,
            draft_token_ids=draft_ids,
            prompt_length=len(request.prompt_token_ids),
        )
        return torch.cat((plain[:-1], super().shape(request, logits, prefix, draft_ids)[-1:]))


class FirstUnchecked(InProcessDecoder):
    """After full acceptance the first draft token of the next round is taken as it is."""

    def round(
        self, request: Request, prefix: TokenPrefix, number: int, before: Sequence[Round]
    ) -> Round:
        """One round."""
        length = self.schedule.draft_length(number)
        full = before and 0 < before[-1].draft_length == before[-1].accepted
        if not full or length == 0:
            return super().round(request, prefix, number, before)
        committed_length = len(prefix)
        first, *others = self.propose(request, prefix, length)
        prefix.extend((first.token_id,))
        judgement = self.judge(request, prefix, others, want_bonus=self.schedule.want_bonus(number))
        prefix.truncate(committed_length)
        output = [first.token_id, *judgement.output_token_ids]
        return Round(length, 1 + judgement.accepted, output)


@dataclass(frozen=True)
class Peeking(InProcessDecoder):
    """A proposal is cut before the first token whose own q is low, after looking at the token."""

    least: float = 0.3

    def propose(
        self, request: Request, prefix: TokenPrefix, length: int
    ) -> Sequence[ProposedToken]:
        """The draft tokens before the first unlikely one."""
        drafts = super().propose(request, prefix, length)
        likely = [draft_prob(draft) >= self.least for draft in drafts]
        return drafts[: likely.index(False)] if False in likely else drafts


class EqualityVerifying(InProcessDecoder):
    """Accepts a draft token when the target's own draw is the same, and else outputs that draw.

    Exact, though less is accepted than by REJECTION.
    """

    after_mismatch = Purpose.BONUS

    def judge(
        self,
        request: Request,
        prefix: TokenPrefix,
        drafts: Sequence[ProposedToken],
        *,
        want_bonus: bool,
    ) -> Judgement:
        """Draws the target's own token at each position."""
        rows = self.rows(request, prefix, [draft.token_id for draft in drafts])
        committed_length = len(prefix)
        output: list[int] = []
        for row, draft in zip(rows, [*drafts, None], strict=True):
            if draft is None and drafts and not want_bonus:
                break
            output.append(self._own(request, prefix, row, Purpose.BONUS))
            if draft is None:
                break
            if output[-1] != draft.token_id:
                output[-1] = self._own(request, prefix, row, self.after_mismatch)
                prefix.truncate(committed_length)
                return Judgement(len(output) - 1, output)
            prefix.extend((draft.token_id,))
        prefix.truncate(committed_length)
        return Judgement(len(drafts), output)

    def _own(
        self, request: Request, prefix: TokenPrefix, row: torch.Tensor, purpose: Purpose
    ) -> int:
        seed = derive_seed(purpose, seed=request.seed or 0, choice_index=0)
        position = len(prefix)
        return draw_from(row, draw_word(seed, position=position, digest=prefix.digest(position)))


class FreshAfterMismatch(EqualityVerifying):
    """As EqualityVerifying, but a mismatch outputs a new draw: biased towards what q likes."""

    after_mismatch = Purpose.RECOVER


def draft_prob(draft: ProposedToken) -> float:
    """q of the token itself."""
    if not isinstance(draft.law, CutLaw):
        return 1.0
    return draft.law.weights[draft.law.token_ids.index(draft.token_id)] / sum(draft.law.weights)
