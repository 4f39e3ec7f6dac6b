"""All new tokens of one forward in one row, with everything that is computed once for all layers.

The metadata belongs to the batch, not to a layer: places in the pool, positions, and which
sequences are attended together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch

from outrider.engine.attention_group import AttentionGroup, group_parts
from outrider.engine.kv_pool import KvPool
from outrider.engine.packed_part import Part
from outrider.engine.staging import stage
from outrider.engine.varlen_attention import VarlenBatch, VarlenKernel


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """One packed forward. T tokens, ordered so that each group's are next to each other.

    `token_ids`, `positions`, `places` (of keys and values in the pool): int64 [T].
    `wanted`: int64, the tokens whose logits are wanted, part by part in the order given.
    `parts`: group by group. `varlen`: the same for a kernel that needs no groups, if there is one.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    places: torch.Tensor
    wanted: torch.Tensor
    parts: tuple[tuple[Part, ...], ...]
    pool: KvPool
    varlen: VarlenBatch | None = None

    @cached_property
    def groups(self) -> tuple[AttentionGroup, ...]:
        """The groups, in the order of their tokens."""
        return tuple(AttentionGroup.of(parts, self.pool) for parts in self.parts)

    @classmethod
    def pack(
        cls, parts: Sequence[Part], pool: KvPool, kernel: VarlenKernel | None = None
    ) -> PackedBatch:
        """Packs parts, none of them empty."""
        device, block_size = pool.layout.device, pool.layout.block_size
        groups = group_parts(parts, token_bytes=pool.layout.widest_token_bytes)
        order = [index for group in groups for index in group]
        ordered = [parts[index] for index in order]
        ends = accumulate(len(part.token_ids) for part in ordered)
        wanted: list[range] = [range(0)] * len(parts)
        for index, part, end in zip(order, ordered, ends, strict=True):
            wanted[index] = range(end - part.rows, end)
        columns = (
            [token_id for part in ordered for token_id in part.token_ids],
            [position for part in ordered for position in range(part.start, part.length)],
            [place for part in ordered for place in part.places(part.start, block_size=block_size)],
            [row for rows in wanted for row in rows],
        )
        token_ids, positions, places, rows = stage(columns, device=device)
        return cls(
            token_ids=token_ids,
            positions=positions,
            places=places,
            wanted=rows,
            parts=tuple(tuple(parts[index] for index in group) for group in groups),
            pool=pool,
            varlen=kernel.prepare(ordered, pool) if kernel else None,
        )
