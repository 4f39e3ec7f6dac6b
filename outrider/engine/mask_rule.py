"""Which earlier positions a layer looks at, as transformers' mask functions say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.masking_utils import causal_mask_function

__all__ = ["MaskRule", "Visible", "causal_mask_function", "packed_mask"]

Visible = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    torch.Tensor,
]
"""(batch index, head index, position that looks, position looked at) → bool, elementwise."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskRule:
    """What takes the place of a mask until an attention function needs one.

    `local_size`: of the window or chunk that the rule is limited to; None means no limit.
    """

    visible: Visible
    local_size: int | None

    @property
    def causal(self) -> bool:
        """Every earlier position is seen, and nothing else matters."""
        return self.visible is causal_mask_function

    def mask(self, looking: torch.Tensor, looked_at: torch.Tensor) -> torch.Tensor:
        """Bool, of the shape that both tensors of positions broadcast to."""
        first = torch.zeros((), dtype=torch.long, device=looking.device)
        return self.visible(first, first, looking, looked_at)


def packed_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    *,
    mask_function: Visible,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    use_vmap: bool = False,
    **unused: Any,
) -> MaskRule:
    """The mask function of packed batches, to be registered with transformers.

    A packed batch has several sequences in one row, so that the lengths given here mean nothing:
    the rule alone is kept. Raises ValueError for a mask that cannot be had position by position.
    """
    if attention_mask is not None or use_vmap:
        raise ValueError("its mask is more than a rule over positions")
    return MaskRule(mask_function, local_size)
