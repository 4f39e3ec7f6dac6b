"""REJECTION: which draft tokens become output, and what follows them.

    u ~ U[0, 1);  accept x iff u · q(x) < p(x)
    after the first rejection draw from max(0, p − q), normalised
    after full acceptance draw a bonus from p

Every output token is then distributed as p, whatever q is (Leviathan et al., "Fast inference from
transformers via speculative decoding", 2023; Chen et al., "Accelerating large language model
decoding with speculative sampling", 2023).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

import torch

from outrider.draft_law import POINT_MASS, CutLaw, DraftLaw
from outrider.prefix import extend_digest
from outrider.randomness import Purpose, derive_seed, draw_word, unit
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement

_UNIT_BITS = 53


def judge(
    target_probs: torch.Tensor,
    drafts: Sequence[ProposedToken],
    *,
    seed: int,
    choice_index: int,
    position: int,
    digest: int,
    want_bonus: bool,
    stop_token_ids: Collection[int],
) -> Judgement:
    """Judges checked draft tokens, a chain, against `target_probs` [len(drafts) + 1, vocabulary].

    `position` is that of the first draft token and `digest` covers all ids before it; row j is p
    after those and the first j draft tokens. The last row is read only if the bonus is wanted. A
    draft token without a law is judged as a point mass. Ends at the first accepted stop id:
    nothing is drawn after it. Never returns an id whose p is 0.
    """
    accept_seed = derive_seed(Purpose.ACCEPT, seed=seed, choice_index=choice_index)
    output: list[int] = []
    for draft, p in zip(drafts, _probs_of(target_probs, drafts), strict=True):
        law = draft.law or POINT_MASS
        word = draw_word(accept_seed, position=position, digest=digest)
        if not accepts(word, acceptance_probability(p, law, draft.token_id)):
            recover_seed = derive_seed(Purpose.RECOVER, seed=seed, choice_index=choice_index)
            word = draw_word(recover_seed, position=position, digest=digest)
            row = _float64(target_probs[len(output)])
            recovered = draw_from(residual(row, law, draft.token_id), word)
            return Judgement(len(output), [*output, recovered])
        output.append(draft.token_id)
        if draft.token_id in stop_token_ids:
            return Judgement(len(output), output)
        digest = extend_digest(digest, draft.token_id)
        position += 1
    if not want_bonus:
        return Judgement(len(output), output)
    bonus_seed = derive_seed(Purpose.BONUS, seed=seed, choice_index=choice_index)
    word = draw_word(bonus_seed, position=position, digest=digest)
    bonus = draw_from(_float64(target_probs[len(drafts)]), word)
    return Judgement(len(output), [*output, bonus])


def acceptance_probability(p: float, law: DraftLaw, token_id: int) -> Fraction:
    """min(1, p ÷ q) of a token that `law` can give, exact. `p` is its target probability."""
    if not isinstance(law, CutLaw):
        return Fraction(p)
    weight = law.weights[law.token_ids.index(token_id)]
    numerator, denominator = p.as_integer_ratio()
    return min(Fraction(1), Fraction(numerator * sum(law.weights), denominator * weight))


def accepts(word: int, probability: Fraction) -> bool:
    """Whether the u of 64 random bits is below `probability`.

    Compared in integers, so that a token with p = 0 is never accepted and one with p ≥ q always
    is, whatever a float would round to.
    """
    u = word >> (64 - _UNIT_BITS)
    return u * probability.denominator < probability.numerator << _UNIT_BITS


def residual(target_probs: torch.Tensor, law: DraftLaw, token_id: int) -> torch.Tensor:
    """max(0, p − q), not normalised, from `target_probs` float64 [vocabulary].

    Where p equals q up to rounding nothing is left; p itself is returned then.
    """
    if isinstance(law, CutLaw):
        places = torch.tensor(law.token_ids)
        draft_probs = torch.tensor(law.weights, dtype=torch.float64).div_(sum(law.weights))
        left = target_probs.index_add(0, places, draft_probs, alpha=-1).clamp_(min=0.0)
    else:
        left = target_probs.clone()
        left[token_id] = 0.0
    return left if bool(left.any()) else target_probs


def draw_from(mass: torch.Tensor, word: int) -> int:
    """The id that 64 random bits stand for under `mass`, float64 [vocabulary], not all zero.

    Inverse cumulative distribution over rising ids; never an id without mass.
    """
    bounds = mass.cumsum(dim=0)
    token_id = int(torch.searchsorted(bounds, unit(word) * bounds[-1], right=True))
    if token_id == bounds.numel():
        # u · total rounded up to the total itself.
        token_id = int(mass.nonzero()[-1])
    return token_id


def _probs_of(target_probs: torch.Tensor, drafts: Sequence[ProposedToken]) -> list[float]:
    """p of each draft token in its own row."""
    if not drafts:
        return []
    rows = torch.arange(len(drafts), device=target_probs.device)
    token_ids = torch.tensor([draft.token_id for draft in drafts], device=target_probs.device)
    probs: list[float] = target_probs[rows, token_ids.long()].tolist()
    return probs


def _float64(row: torch.Tensor) -> torch.Tensor:
    """A row where it can be summed in a fixed order."""
    return row.to(device="cpu", dtype=torch.float64)
