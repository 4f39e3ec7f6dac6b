"""Whether the draft tokens of a round may be judged: everything a draft sends is checked first.

The target draws each token again from its law and the draft's seed. That catches honest mistakes,
such as a law that was cut after the draw; it is no defence against malice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from outrider.draft_law import MAX_CANDIDATES, MAX_WEIGHT, CutLaw, DraftLaw, PointMass
from outrider.prefix import extend_digest
from outrider.randomness import draw_word

__all__ = [
    "CutLaw",
    "InvalidDraft",
    "InvalidReason",
    "PointMass",
    "ProposedToken",
    "check_drafts",
    "check_ids",
]


@dataclass(frozen=True, slots=True)
class ProposedToken:
    """A draft token as it arrived. `law` None: it came without one."""

    token_id: int
    law: DraftLaw | None


class InvalidReason(StrEnum):
    """What was wrong with a draft token. Stable words, part of the contract."""

    LAW_MISSING = "LAW_MISSING"
    LENGTHS_DIFFER = "LENGTHS_DIFFER"
    TOO_MANY_CANDIDATES = "TOO_MANY_CANDIDATES"
    ID_OUT_OF_RANGE = "ID_OUT_OF_RANGE"
    DUPLICATE_ID = "DUPLICATE_ID"
    WEIGHT_OUT_OF_RANGE = "WEIGHT_OUT_OF_RANGE"
    TOKEN_NOT_IN_LAW = "TOKEN_NOT_IN_LAW"
    NOT_RECOMPUTED = "NOT_RECOMPUTED"


@dataclass(frozen=True, slots=True)
class InvalidDraft:
    """The first draft token that may not be used: its absolute position, and why."""

    position: int
    reason: InvalidReason


def check_drafts(
    drafts: Sequence[ProposedToken],
    *,
    position: int,
    digest: int,
    draft_seed: int,
    vocabulary_size: int,
    greedy: bool,
) -> InvalidDraft | None:
    """None when all may be judged.

    `position` is that of the first draft token, `digest` covers all ids before it, `draft_seed`
    is the seed of the draft's draws. Under `greedy` target sampling a token needs no law.
    """
    for place, draft in enumerate(drafts, start=position):
        reason: InvalidReason | None = None
        if not 0 <= draft.token_id < vocabulary_size:
            reason = InvalidReason.ID_OUT_OF_RANGE
        elif draft.law is None:
            reason = None if greedy else InvalidReason.LAW_MISSING
        elif isinstance(draft.law, CutLaw):
            reason = _fault(draft.law, draft.token_id, vocabulary_size=vocabulary_size)
            if reason is None:
                word = draw_word(draft_seed, position=place, digest=digest)
                if draft.law.draw(word) != draft.token_id:
                    reason = InvalidReason.NOT_RECOMPUTED
        if reason is not None:
            return InvalidDraft(place, reason)
        digest = extend_digest(digest, draft.token_id)
    return None


def check_ids(
    drafts: Sequence[ProposedToken], *, position: int, vocabulary_size: int
) -> InvalidDraft | None:
    """As `check_drafts` where no law is asked for: what a token was drawn from decides nothing."""
    for place, draft in enumerate(drafts, start=position):
        if not 0 <= draft.token_id < vocabulary_size:
            return InvalidDraft(place, InvalidReason.ID_OUT_OF_RANGE)
    return None


def _fault(law: CutLaw, token_id: int, *, vocabulary_size: int) -> InvalidReason | None:
    """What keeps `law` from being a law that `token_id` can come from."""
    token_ids, weights = law.token_ids, law.weights
    if len(token_ids) != len(weights):
        return InvalidReason.LENGTHS_DIFFER
    if len(token_ids) > MAX_CANDIDATES:
        return InvalidReason.TOO_MANY_CANDIDATES
    if token_id not in token_ids:
        return InvalidReason.TOKEN_NOT_IN_LAW
    if min(token_ids) < 0 or max(token_ids) >= vocabulary_size:
        return InvalidReason.ID_OUT_OF_RANGE
    if len(set(token_ids)) != len(token_ids):
        return InvalidReason.DUPLICATE_ID
    if min(weights) < 1 or max(weights) > MAX_WEIGHT:
        return InvalidReason.WEIGHT_OUT_OF_RANGE
    return None
