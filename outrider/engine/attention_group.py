"""Sequences of one packed batch whose attention is computed together, padded to one shape.

One call over several short sequences is faster than one for each while their keys and values stay
in a core's cache, and slower beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from outrider.engine.kv_pool import KvPool
from outrider.engine.mask_rule import MaskRule
from outrider.engine.packed_part import Part

GROUP_BYTES = 2_000_000
"""Padded keys and values of one layer that a group may have. From about 5 MB on, grouping loses."""
PADDING = 1.5
"""Padded work that a group may have, as a multiple of the work that is needed."""
FOLDED_ROWS = 64
"""From so many rows on, query heads that share a key head are not folded into rows: a folded mask
has a copy for each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class AttentionGroup:
    """N sequences of up to R new tokens and L tokens in all.

    `tokens`: new tokens of all sequences together. `positions`: int64 [N, R] of the new tokens,
    padded with each sequence's last; `lengths`: int64 [N]. `padded`: int64 [N · R], which token
    stands in each padded row, and `real`: int64 [tokens], the row of each token; None where
    nothing is padded. `index`: int64, where keys and values are: the blocks of a single sequence,
    the places [N · L] of several.
    """

    sequences: int
    rows: int
    length: int
    tokens: int
    positions: torch.Tensor
    lengths: torch.Tensor
    padded: torch.Tensor | None
    real: torch.Tensor | None
    index: torch.Tensor
    masks: dict[tuple[MaskRule, int], torch.Tensor | None] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[Part], pool: KvPool) -> AttentionGroup:
        """The group of these parts, in their order."""
        device = pool.layout.device
        counts = [len(part.token_ids) for part in parts]
        rows, length = max(counts), max(part.length for part in parts)
        even = min(counts) == rows
        steps = torch.arange(rows)
        last = torch.tensor(counts).unsqueeze(1) - 1  # [N, 1]
        starts = torch.tensor([part.start for part in parts]).unsqueeze(1)
        within = torch.minimum(steps, last)  # [N, R]: padding repeats the last new token
        firsts = last.cumsum(0) + torch.arange(len(parts)).unsqueeze(1) - last
        return cls(
            sequences=len(parts),
            rows=rows,
            length=length,
            tokens=sum(counts),
            positions=(starts + within).to(device),
            lengths=(starts + last + 1).squeeze(1).to(device),
            padded=None if even else (firsts + within).flatten().to(device),
            real=None if even else (steps <= last).flatten().nonzero().squeeze(1).to(device),
            index=_blocks(parts[0], pool) if len(parts) == 1 else _places(parts, length, pool),
        )

    def gather(self, pool: torch.Tensor) -> torch.Tensor:
        """Keys or values of all tokens, [N, L, heads, size].

        `pool`: [blocks, block_size, heads, size] of one layer. Whole blocks are faster to copy; a
        single sequence can cut off what its last block has too much.
        """
        if self.sequences == 1:
            return pool.index_select(0, self.index).flatten(0, 1)[: self.length].unsqueeze(0)
        places = pool.flatten(0, 1).index_select(0, self.index)
        return places.view(self.sequences, self.length, *pool.shape[2:])

    def mask(self, rule: MaskRule, *, fold: int, dtype: torch.dtype) -> torch.Tensor | None:
        """What is added to the scores, [N, 1, fold · R, L]: 0, or -inf where nothing is seen.

        `fold`: query heads that stand below each other as rows. None: everything is seen. Made
        once for all layers with that rule.
        """
        key = (rule, fold)
        if key not in self.masks:
            self.masks[key] = self._make_mask(rule, fold=fold, dtype=dtype)
        return self.masks[key]

    def _make_mask(self, rule: MaskRule, *, fold: int, dtype: torch.dtype) -> torch.Tensor | None:
        if rule.causal and self.sequences == self.rows == 1:
            return None
        looked_at = torch.arange(self.length, device=self.lengths.device)
        seen = rule.mask(self.positions[:, None, :, None], looked_at)
        seen = seen & (looked_at < self.lengths[:, None, None, None])
        mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
        mask.masked_fill_(~seen, -torch.inf)
        shape = (self.sequences, fold, self.rows, self.length)
        return mask.expand(shape).reshape(self.sequences, 1, fold * self.rows, self.length)


def group_parts(parts: Sequence[Part], *, token_bytes: int) -> list[list[int]]:
    """Indices of parts, those to be attended together in one list.

    `token_bytes`: keys and values of one token in one layer.
    """
    order = sorted(
        range(len(parts)),
        key=lambda index: (len(parts[index].token_ids).bit_length(), parts[index].length),
    )
    groups: list[list[int]] = []
    for index in order:
        if groups and _fit([parts[each] for each in (*groups[-1], index)], token_bytes):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _fit(parts: Sequence[Part], token_bytes: int) -> bool:
    tokens = len(parts) * max(part.length for part in parts)
    padded = tokens * max(len(part.token_ids) for part in parts)
    needed = sum(part.length * len(part.token_ids) for part in parts)
    return tokens * token_bytes <= GROUP_BYTES and padded <= PADDING * needed


def _blocks(part: Part, pool: KvPool) -> torch.Tensor:
    count = pool.layout.blocks_for(part.length)
    return torch.tensor(part.table[:count], dtype=torch.long, device=pool.layout.device)


def _places(parts: Sequence[Part], length: int, pool: KvPool) -> torch.Tensor:
    """[N · L]; beyond a sequence's own length, the place that is always zero."""
    size = pool.layout.block_size
    count = pool.layout.blocks_for(length)
    tables = torch.full((len(parts), count), pool.blocks)
    for row, part in zip(tables, parts, strict=True):
        blocks = part.table[: pool.layout.blocks_for(part.length)]
        row[: len(blocks)] = torch.tensor(blocks)
    places = (tables.unsqueeze(2) * size + torch.arange(size)).flatten(1)[:, :length]
    lengths = torch.tensor([part.length for part in parts]).unsqueeze(1)
    places = torch.where(torch.arange(length) < lengths, places, pool.empty_place)
    return places.flatten().to(pool.layout.device)
