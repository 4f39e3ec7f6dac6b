"""What a transformers model takes for its cache while it runs a packed batch."""

from __future__ import annotations

from typing import Any

import torch

from outrider.engine.kv_pool import KvPool
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.paged_attention import paged_attention
from outrider.engine.scoring import Scoring


class PackedCache:
    """Writes each layer's new keys and values to their places in the pool, and attends to it.

    It has what models use of a cache and no more. Lengths mean nothing in a packed batch, whose
    positions are given and whose masks are rules; what is answered to questions about them only
    has to be consistent.
    """

    is_compileable = False

    def __init__(self, pool: KvPool, batch: PackedBatch) -> None:
        self._pool = pool
        self._batch = batch

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *unused: Any, **also: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores new keys and values [1, heads, T, size]; gives the layer's whole pool back."""
        places = self._batch.places
        self._pool.write(layer, places, keys[0].transpose(0, 1), values[0].transpose(0, 1))
        return self._pool.keys[layer], self._pool.values[layer]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """The attention of a layer, [1, T, query heads, value size].

        `query`: [1, query heads, T, size]; `keys`, `values`: what `update` gave.
        """
        batch, tokens = self._batch, query[0].transpose(0, 1)
        if batch.varlen is not None and batch.varlen.can(scoring):
            answer = batch.varlen.attend(tokens, keys, values, scoring)
        else:
            answer = paged_attention(batch, tokens, keys, values, scoring)
        return answer.unsqueeze(0)

    def get_seq_length(self, layer: int = 0) -> int:
        """Nothing was seen before this batch."""
        return 0

    def get_query_offset(self, layer: int = 0) -> int:
        """The first token of the batch comes first."""
        return 0

    def get_mask_sizes(self, query_length: int, layer: int) -> tuple[int, int]:
        """As many keys as queries, from the first on."""
        return query_length, 0
