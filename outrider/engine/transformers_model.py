"""A causal language model of transformers behind the engine's seam, one cache per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from outrider.engine.columns import Columns
from outrider.engine.model import Chunk
from outrider.prefix import TokenPrefix


class TransformersSequence:
    """One sequence's ids and its cache. The cache's layers are all full attention."""

    def __init__(self, config: Any) -> None:
        self.prefix = TokenPrefix()
        self.cache = DynamicCache(config=config)
        self._config = config

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(
            layer.keys.nbytes + layer.values.nbytes
            for layer in self.cache.layers
            if layer.is_initialized
        )

    def rollback(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        surplus = len(self.prefix) - length
        if length == 0:
            # Also what a forward that failed half-way may have left.
            self.cache = DynamicCache(config=self._config)
        elif surplus > 0:
            self.cache.crop(-surplus)
        self.prefix.truncate(length)


class TransformersModel:
    """Runs chunks one after the other."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        vocabulary_size: int | None = None,
        context_length: int | None = None,
        draft_vocabulary: torch.Tensor | None = None,
    ) -> None:
        """`vocabulary_size`: ids from here on are padding; None means the head has no padding.

        `context_length`: None means what the model's configuration says. `draft_vocabulary`:
        int64 [n], rising ids that get a logits column at all; the head must be a plain linear
        layer then.
        """
        self._model = model.eval()
        self._config = model.config.get_text_config(decoder=True)
        self.vocabulary_size = vocabulary_size or int(self._config.vocab_size)
        self.context_length = context_length or int(self._config.max_position_embeddings)
        self.columns = Columns(self.vocabulary_size, draft_vocabulary)
        self._embeddings = int(model.get_input_embeddings().num_embeddings)
        self.weights_bytes = sum(weight.nbytes for weight in model.parameters())
        self._head = None if draft_vocabulary is None else _head_rows(model, draft_vocabulary)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        device: torch.device = self._model.device
        return device

    def new_sequence(self) -> TransformersSequence:
        """Empty state."""
        return TransformersSequence(self._config)

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk]) -> list[torch.Tensor]:
        """Appends each chunk to its sequence; its logits [rows, columns]."""
        return [self._read(chunk) for chunk in chunks]

    def _read(self, chunk: Chunk) -> torch.Tensor:
        sequence = chunk.sequence
        if not isinstance(sequence, TransformersSequence):
            raise TypeError("the sequence is another model's")
        count = len(chunk.token_ids)
        if len(sequence.prefix) + count > self.context_length:
            raise ValueError("beyond the context length")
        token_ids = torch.tensor([chunk.token_ids], device=self.device)
        # A draft may be shown a target's extra tokens; what it makes of them only costs acceptance.
        token_ids.clamp_(max=self._embeddings - 1)
        rows = self._logits(token_ids, sequence.cache, rows=chunk.rows)
        sequence.prefix.extend(chunk.token_ids)
        return rows

    def _logits(self, token_ids: torch.Tensor, cache: DynamicCache, *, rows: int) -> torch.Tensor:
        first = token_ids.shape[1] - rows
        if rows and self._head is None:
            wanted = torch.arange(first, token_ids.shape[1], device=self.device)
            answer = self._model(token_ids, cache=cache, use_cache=True, logits_to_keep=wanted)
            logits: torch.Tensor = answer.logits[0, :, : self.vocabulary_size]
            return logits
        answer = self._model.base_model(token_ids, cache=cache, use_cache=True)
        hidden: torch.Tensor = answer.last_hidden_state[0, first:]
        if self._head is None:
            return hidden.new_empty(0, len(self.columns))
        return torch.nn.functional.linear(hidden, self._head)


def _head_rows(model: PreTrainedModel, token_ids: torch.Tensor) -> torch.Tensor:
    """The head's weights for some ids, [ids, hidden]."""
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or head.bias is not None:
        raise ValueError("a head over part of the vocabulary needs a linear head without bias")
    with torch.no_grad():
        return head.weight[token_ids.to(head.weight.device)]
