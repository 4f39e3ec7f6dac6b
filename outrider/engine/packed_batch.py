"""All new tokens of one forward in one row, with everything that is computed once for all layers.

The metadata belongs to the batch, not to a layer: places in the pool, positions, and which
sequences are attended together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from outrider.engine.attention_group import AttentionGroup, Part, group_parts
from outrider.engine.kv_pool import KvPool

__all__ = ["PackedBatch", "Part"]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One packed forward. T tokens, ordered so that each group's are next to each other.

    `token_ids`, `positions`, `places` (of keys and values in the pool): int64 [T].
    `wanted`: int64, the tokens whose logits are wanted, part by part in the order given.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    places: torch.Tensor
    wanted: torch.Tensor
    groups: tuple[AttentionGroup, ...]
    parts: tuple[Part, ...]
    """In the order of their tokens."""

    @classmethod
    def pack(cls, parts: Sequence[Part], pool: KvPool) -> PackedBatch:
        """Packs parts, none of them empty."""
        device, block_size = pool.layout.device, pool.layout.block_size
        groups = group_parts(parts, token_bytes=pool.layout.widest_token_bytes)
        order = [index for group in groups for index in group]
        ordered = tuple(parts[index] for index in order)
        ends = list(accumulate(len(part.token_ids) for part in ordered))
        wanted: list[range] = [range(0)] * len(parts)
        for index, part, end in zip(order, ordered, ends, strict=True):
            wanted[index] = range(end - part.rows, end)
        positions = [position for part in ordered for position in range(part.start, part.length)]
        places = [
            part.table[position // block_size] * block_size + position % block_size
            for part in ordered
            for position in range(part.start, part.length)
        ]
        return cls(
            token_ids=_indices([each for part in ordered for each in part.token_ids], device),
            positions=_indices(positions, device),
            places=_indices(places, device),
            wanted=_indices([row for rows in wanted for row in rows], device),
            groups=tuple(
                AttentionGroup.of([parts[index] for index in group], pool) for group in groups
            ),
            parts=ordered,
        )


def _indices(values: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.long, device=device)
