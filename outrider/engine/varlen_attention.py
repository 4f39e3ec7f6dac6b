"""Attention of a packed batch by torch's kernel for sequences of any lengths, on CUDA.

It needs no padding and no masks. Keys and values are gathered by place, or read from the pool by
block table where the installed kernels can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import torch

from outrider.engine.kv_pool import KvPool
from outrider.engine.packed_part import Part
from outrider.engine.scoring import Scoring
from outrider.engine.staging import stage

DTYPES = (torch.float16, torch.bfloat16)

Varlen = Callable[..., Any]
"""torch.nn.attention.varlen.varlen_attn, or what has its arguments."""


@dataclass(frozen=True, slots=True)
class VarlenKernel:
    """A kernel, and whether it takes block tables."""

    attend: Varlen
    takes_tables: bool

    def prepare(self, parts: Sequence[Part], pool: KvPool) -> VarlenBatch:
        """What the kernel is told of a batch, `parts` in the order of its tokens."""
        counts = [len(part.token_ids) for part in parts]
        lengths = [part.length for part in parts]
        most = pool.layout.blocks_for(max(lengths))
        if self.takes_tables:
            rows = ([*part.table, *[pool.blocks] * most][:most] for part in parts)
        else:
            rows = (part.places(0, block_size=pool.layout.block_size) for part in parts)
        columns = (
            list(chain.from_iterable(rows)),
            list(accumulate(counts, initial=0)),
            list(accumulate(lengths, initial=0)),
            lengths,
        )
        index, query_ends, key_ends, lasts = (
            column.int() for column in stage(columns, device=pool.layout.device)
        )
        return VarlenBatch(
            kernel=self,
            query_ends=query_ends,
            key_ends=key_ends,
            lengths=lasts,
            most_queries=max(counts),
            most_keys=max(lengths),
            index=index.view(len(parts), most) if self.takes_tables else index,
        )


@dataclass(frozen=True, slots=True)
class VarlenBatch:
    """N sequences of a batch. All tensors are int32.

    `query_ends`, `key_ends`: [N + 1], where each sequence's new tokens and all its tokens end if
    they follow each other. `lengths`: [N]. `index`: block tables [N, blocks], or the places of all
    tokens.
    """

    kernel: VarlenKernel
    query_ends: torch.Tensor
    key_ends: torch.Tensor
    lengths: torch.Tensor
    most_queries: int
    most_keys: int
    index: torch.Tensor

    def can(self, scoring: Scoring) -> bool:
        """Whether the kernel does what this layer asks for."""
        return scoring.plain and (scoring.rule.causal or scoring.window is not None)

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """As `paged_attention`."""
        tables: dict[str, torch.Tensor] = {}
        key_ends: torch.Tensor | None = self.key_ends
        if self.kernel.takes_tables:
            tables, key_ends = {"block_table": self.index, "seqused_k": self.lengths}, None
        else:
            keys, values = (
                pool.flatten(0, 1).index_select(0, self.index) for pool in (keys, values)
            )
        answer: torch.Tensor = self.kernel.attend(
            query.contiguous(),
            keys,
            values,
            self.query_ends,
            key_ends,
            self.most_queries,
            self.most_keys,
            scale=scoring.scaling,
            window_size=(-1 if scoring.window is None else scoring.window - 1, 0),
            enable_gqa=query.shape[1] != keys.shape[-2],
            **tables,
        )
        return answer
