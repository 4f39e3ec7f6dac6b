"""Attention over paged keys and values as one operation that a compiler does not look into.

Which blocks a sequence has and how sequences are grouped differ from batch to batch. A compiled
graph must not depend on it: it hands new keys and values to the operation `outrider::attend`,
which finds the batch at its site.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch

from outrider.engine.kv_pool import KvPool
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.packed_cache import PackedCache
from outrider.engine.scoring import Scoring


class AttentionSite:
    """Where the operation finds what a graph does not carry; one for each compiled model.

    `scorings`: by layer. `batch`: the one whose forward runs.
    """

    def __init__(self, pool: KvPool, scorings: dict[int, Scoring]) -> None:
        self.pool = pool
        self.scorings = scorings
        self.batch: PackedBatch | None = None
        self.number = next(_numbers)
        _sites[self.number] = self

    def attend(
        self, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """As the operation, once its site is found."""
        if self.batch is None:
            raise RuntimeError("no batch runs here")
        cache = PackedCache(self.pool, self.batch)
        tokens, padded = len(self.batch.token_ids), query.shape[2]
        answer = cache.attend(
            query[:, :, :tokens],
            *cache.update(keys[:, :, :tokens], values[:, :, :tokens], layer),
            self.scorings[layer],
        )
        if tokens == padded:
            return answer.contiguous()
        whole = answer.new_zeros(1, padded, *answer.shape[2:])
        whole[:, :tokens] = answer
        return whole


class OpaqueCache(PackedCache):
    """A cache for tracing: what it is given goes to the operation."""

    def __init__(self, site: int) -> None:
        self._site = site
        self._layer = 0

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *unused: Any, **also: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [1, heads, T, size], as they are."""
        self._layer = layer
        return keys, values

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """[1, T, query heads, value size]. How the layer scores is known at the site."""
        answer: torch.Tensor = torch.ops.outrider.attend(
            query, keys, values, self._site, self._layer
        )
        return answer


class RecordingCache(PackedCache):
    """A cache that remembers how each layer scores."""

    def __init__(self, pool: KvPool, batch: PackedBatch) -> None:
        super().__init__(pool, batch)
        self.scorings: dict[int, Scoring] = {}
        self._layer = 0

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *unused: Any, **also: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As in any forward."""
        self._layer = layer
        return super().update(keys, values, layer)

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """As in any forward."""
        self.scorings[self._layer] = scoring
        return super().attend(query, keys, values, scoring)


_numbers = count(1)
_sites: WeakValueDictionary[int, AttentionSite] = WeakValueDictionary()
"""An operation takes tensors and numbers only, so that sites are found by theirs."""


def _attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, site: int, layer: int
) -> torch.Tensor:
    return _sites[site].attend(layer, query, keys, values)


def _attend_shape(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, site: int, layer: int
) -> torch.Tensor:
    return query.new_empty(1, query.shape[2], query.shape[1], values.shape[3])


# It reads and writes the pool behind the compiler's back, and what it launches differs from batch
# to batch: CUDA graphs end before it and begin after it.
torch.library.define(
    "outrider::attend",
    "(Tensor query, Tensor keys, Tensor values, int site, int layer) -> Tensor",
    tags=(torch.Tag.cudagraph_unsafe,),
)
torch.library.impl("outrider::attend", "CompositeExplicitAutograd", _attend)
torch.library.register_fake("outrider::attend", _attend_shape)
