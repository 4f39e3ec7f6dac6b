"""What the model thread is asked to verify, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.engine.handles import StateLost
from outrider.engine.sampling_options import SamplingOptions
from target_service.draft_check import InvalidDraft, ProposedToken
from target_service.judgement import Rule


@dataclass(frozen=True, slots=True)
class VerifyTerms:
    """What an Open fixes for all rounds of its stream."""

    options: SamplingOptions
    seed: int
    choice_index: int
    prompt_length: int
    rule: Rule = Rule.REJECTION


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """One round: the tokens committed after `base_length`, and a chain of drafts to judge.

    `until_length`: how many ids, prompt included, there may be when the run that the round begins
    ends. 0: it is a single round.
    """

    handle_id: str
    owner: str
    terms: VerifyTerms
    base_length: int
    prefix_digest: int
    committed_token_ids: Sequence[int]
    drafts: Sequence[ProposedToken]
    want_bonus: bool
    until_length: int = 0

    @property
    def position(self) -> int:
        """That of the first draft token."""
        return self.base_length + len(self.committed_token_ids)


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """What was decided. `kept_length` is how many leading ids have KV state now.

    `expected_acceptance`: as of a Verdict.
    """

    accepted: int
    output_token_ids: Sequence[int]
    kept_length: int
    invalid: InvalidDraft | None
    expected_acceptance: Sequence[float] = ()


def count_outputs(result: VerdictResult | StateLost) -> int:
    """Output tokens of a round."""
    return 0 if isinstance(result, StateLost) else len(result.output_token_ids)
