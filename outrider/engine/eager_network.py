"""A model's network as transformers has it, over a packed batch."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from transformers import PreTrainedModel

from outrider.engine.packed_batch import PackedBatch
from outrider.engine.packed_cache import PackedCache


class Network(Protocol):
    """From the tokens of a batch to logits, however it is run."""

    def logits(self, batch: PackedBatch) -> torch.Tensor:
        """[wanted, columns]; the state of the batch's tokens is in the pool afterwards."""
        ...


class EagerNetwork:
    """Runs operation by operation."""

    def __init__(
        self, model: PreTrainedModel, *, vocabulary_size: int, head: torch.Tensor | None
    ) -> None:
        """`head`: weights [columns, hidden] in the place of the model's own head."""
        self.model = model
        self._vocabulary_size = vocabulary_size
        self._head = head
        self._embeddings = int(model.get_input_embeddings().num_embeddings)

    def logits(self, batch: PackedBatch) -> torch.Tensor:
        """[wanted, columns]."""
        cache = PackedCache(batch.pool, batch)
        token_ids, positions = batch.token_ids.unsqueeze(0), batch.positions.unsqueeze(0)
        if len(batch.wanted):
            return self.rows(token_ids, positions, batch.wanted, cache)
        self._without_head(token_ids, positions, cache)
        columns = self._vocabulary_size if self._head is None else len(self._head)
        layout = batch.pool.layout
        return torch.empty(0, columns, dtype=layout.dtype, device=layout.device)

    def rows(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        cache: PackedCache,
    ) -> torch.Tensor:
        """Logits [W, columns] of tokens `wanted` [W] of the row `token_ids` [1, T]."""
        if self._head is not None:
            hidden = self._without_head(token_ids, positions, cache).last_hidden_state
            return torch.nn.functional.linear(hidden[0, wanted], self._head)
        answer = self.model(
            self._known(token_ids),
            position_ids=positions,
            cache=cache,
            use_cache=True,
            packed=cache,
            logits_to_keep=wanted,
        )
        logits: torch.Tensor = answer.logits[0, :, : self._vocabulary_size]
        return logits

    def _without_head(
        self, token_ids: torch.Tensor, positions: torch.Tensor, cache: PackedCache
    ) -> Any:
        """What the model's body answers; `last_hidden_state` is [1, T, hidden]."""
        return self.model.base_model(
            self._known(token_ids),
            position_ids=positions,
            cache=cache,
            use_cache=True,
            packed=cache,
        )

    def _known(self, token_ids: torch.Tensor) -> torch.Tensor:
        """A draft may be shown a target's extra tokens; what it makes of them only costs
        acceptance."""
        return token_ids.clamp(max=self._embeddings - 1)
