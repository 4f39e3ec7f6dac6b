"""A pair of scripted laws: the next token depends on the last two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class TablePair:
    """Logits of a target and a draft, each float64 [vocabulary, vocabulary, vocabulary].

    Entry [a, b] is what follows a sequence that ends in a, b.
    """

    target: torch.Tensor
    draft: torch.Tensor

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are."""
        return self.target.shape[-1]

    def target_logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """[vocabulary]: the target's logits after at least two ids."""
        return self.target[token_ids[-2], token_ids[-1]]

    def draft_logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """[vocabulary]: the draft's logits after at least two ids."""
        return self.draft[token_ids[-2], token_ids[-1]]


def random_pair(*, seed: int, vocabulary_size: int = 8, likeness: float = 0.5) -> TablePair:
    """Two random tables; `likeness` 0 … 1 is how much of the draft's logits are the target's."""
    generator = torch.Generator().manual_seed(seed)
    shape = (vocabulary_size,) * 3
    target, other = (
        1.5 * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    return TablePair(target, likeness * target + (1.0 - likeness) * other)
