"""How far a draft's distributions are from the target's.

p is known by its most likely ids; all others count as one. So is q, and no loss is above that of
the whole distributions.

- forward KL: a draft that gives each id what the target does (Hinton et al., 2015,
  https://arxiv.org/abs/1503.02531);
- reverse KL: one that gives nothing to what the target would not say (Gu et al., 2024,
  https://arxiv.org/abs/2306.08543);
- total variation: the share of draft tokens that REJECTION rejects (Zhou et al., 2024,
  https://arxiv.org/abs/2310.08461).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

TINY = 1e-6

Loss = Callable[["Laws", torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Laws:
    """The target's laws for some places, over the draft's columns.

    `columns`, int64 [places, ids]: column of each id, 0 where `probs` is 0. `probs`, float32 of
    the same shape, are probabilities among the ids that the draft has; what they leave of 1 is
    that of all other columns.
    """

    columns: torch.Tensor
    probs: torch.Tensor

    def to(self, device: torch.device) -> Laws:
        """The same on a device."""
        return Laws(self.columns.to(device), self.probs.to(device))


@dataclass(frozen=True, slots=True)
class _Sides:
    """p and log q of the named ids [places, ids], and of all others [places]."""

    probs: torch.Tensor
    log_draft: torch.Tensor
    rest: torch.Tensor
    draft_rest: torch.Tensor


def _sides(laws: Laws, logits: torch.Tensor) -> _Sides:
    log_draft = logits.float().log_softmax(dim=1).gather(1, laws.columns)
    named = torch.where(laws.probs > 0.0, log_draft.exp(), 0.0)
    rest = (1.0 - laws.probs.sum(dim=1)).clamp(min=TINY)
    draft_rest = (1.0 - named.sum(dim=1)).clamp(min=TINY)
    return _Sides(laws.probs, log_draft, rest, draft_rest)


def forward_kl(laws: Laws, logits: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q) of each place, [places]; `logits` are the draft's [places, columns]."""
    sides = _sides(laws, logits)
    log_probs = sides.probs.clamp(min=TINY).log()
    named = (sides.probs * (log_probs - sides.log_draft)).sum(dim=1)
    return named + sides.rest * (sides.rest.log() - sides.draft_rest.log())


def reverse_kl(laws: Laws, logits: torch.Tensor) -> torch.Tensor:
    """KL(q ‖ p) of each place, [places]; `logits` are the draft's [places, columns]."""
    sides = _sides(laws, logits)
    log_probs = sides.probs.clamp(min=TINY).log()
    draft = torch.where(sides.probs > 0.0, sides.log_draft.exp(), 0.0)
    named = (draft * (sides.log_draft - log_probs)).sum(dim=1)
    return named + sides.draft_rest * (sides.draft_rest.log() - sides.rest.log())


def total_variation(laws: Laws, logits: torch.Tensor) -> torch.Tensor:
    """1 - Σ min(p, q) of each place, [places]; `logits` are the draft's [places, columns]."""
    sides = _sides(laws, logits)
    common = torch.minimum(sides.probs, sides.log_draft.exp()).sum(dim=1)
    return 1.0 - common - torch.minimum(sides.rest, sides.draft_rest)


LOSSES: Mapping[str, Loss] = {
    "forward-kl": forward_kl,
    "reverse-kl": reverse_kl,
    "total-variation": total_variation,
}
