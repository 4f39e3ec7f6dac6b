"""What a draft learns from: a text, and what the target thought would come next at each place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.engine.leaders import leading

LAW_SIZE = 32
"""How many of the most likely ids are kept of each law."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A text, and the target's law for every id from `begin` on.

    `law_ids`, int32 [places, LAW_SIZE], are the most likely ids for a place, the likeliest first;
    `law_probs`, float16 of the same shape, their probabilities at temperature 1. Place j is that
    of the id `token_ids[begin + j]`.
    """

    token_ids: Sequence[int]
    begin: int
    law_ids: torch.Tensor
    law_probs: torch.Tensor

    @property
    def places(self) -> int:
        """Ids that there is a law for."""
        return len(self.token_ids) - self.begin


def laws_of(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and probabilities of the laws that logits [rows, vocabulary] say, as in a Lesson."""
    rows = logits.float()
    values, columns = leading(rows, min(LAW_SIZE, rows.shape[1]))
    probs = torch.exp(values - rows.logsumexp(dim=1, keepdim=True))
    return columns.to(torch.int32), probs.to(torch.float16)
