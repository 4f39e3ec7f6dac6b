"""A causal language model of transformers behind the engine's seam: packed forwards, paged KV."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

import torch
from transformers import PreTrainedModel

from outrider.engine.attention_interface import use_packed_attention
from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.engine.columns import Columns
from outrider.engine.compiled_network import CompiledNetwork
from outrider.engine.compiled_shapes import CompiledShapes, shapes_for
from outrider.engine.compiler import Compiler, compiler_for
from outrider.engine.draft_head import head_rows
from outrider.engine.eager_network import EagerNetwork, Network
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.model import Chunk, Sequence
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.packed_part import Part
from outrider.engine.varlen_probe import find_varlen_kernel

CONTEXTS = 8
"""Full contexts that the KV pool has room for where nobody says how large it is to be."""


PROBE_TOKENS = 16
"""By so many a compiled network is compared with the other."""


class TransformersModel:
    """Runs all chunks of a forward as one packed batch."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        vocabulary_size: int | None = None,
        context_length: int | None = None,
        draft_vocabulary: torch.Tensor | None = None,
        kv: KvPool | None = None,
    ) -> None:
        """Takes the model over: its attention is the engine's from now on.

        `vocabulary_size`: ids from here on are padding; None means the head has no padding.
        `context_length`: None means what the model's configuration says; no more than the pool
        has room for in any case. `draft_vocabulary`: int64 [n], rising ids that get a logits
        column at all; the head must be a plain linear layer then. `kv`: memory for KV state; None
        means enough for a few full contexts. Raises ModelLoadError.
        """
        self._model = model.eval()
        config = model.config.get_text_config(decoder=True)
        context_length = context_length or int(config.max_position_embeddings)
        if kv is None:
            layout = probe_kv_layout(model)
            kv = KvPool(layout, blocks=CONTEXTS * layout.blocks_for(context_length))
        use_packed_attention(model)
        self._longest = context_length
        self._varlen = find_varlen_kernel(kv.layout)
        self._take(kv)
        self.vocabulary_size = vocabulary_size or int(config.vocab_size)
        self.columns = Columns(self.vocabulary_size, draft_vocabulary)
        self.weights_bytes = sum(weight.nbytes for weight in model.parameters())
        self._eager = EagerNetwork(
            model,
            vocabulary_size=self.vocabulary_size,
            head=None if draft_vocabulary is None else head_rows(model, draft_vocabulary),
        )
        self._network: Network = self._eager

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        device: torch.device = self._model.device
        return device

    def resize_kv(self, blocks: int) -> None:
        """Room for so many blocks in place of the pool there is. All states are lost; the context
        is as long as the new pool allows. Raises RuntimeError where a device has no memory."""
        layout = self.kv.layout
        # Both may not fit at once.
        self.kv.keys.clear()
        self.kv.values.clear()
        self._take(KvPool(layout, blocks=blocks))

    def new_sequence(self, scope: bytes = b"") -> Sequence:
        """Empty state, of a cache scope."""
        return Sequence(self.pool, scope=scope)

    @torch.inference_mode()
    def compile(
        self,
        progress: Callable[[str], None] = lambda step: None,
        *,
        shapes: CompiledShapes | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        """Runs compiled from now on, the same to rounding. Call on the thread that is to serve.

        Takes about a minute for a small model. `shapes` and `compiler`: what suits the device.
        Raises ModelLoadError.
        """
        sequence = self.new_sequence()
        count = min(PROBE_TOKENS, self.context_length)
        sequence.reserve(count)
        ids = [each % self.vocabulary_size for each in range(3, 3 + count)]
        probe, smallest = (
            PackedBatch.pack(
                [Part(ids[start:], start, sequence.table, count - start)], self.kv, self._varlen
            )
            for start in (0, count - 1)
        )
        try:
            compiled = CompiledNetwork(
                self._eager,
                smallest=smallest,
                probe=probe,
                shapes=shapes or shapes_for(self.device),
                compiler=compiler or compiler_for(self.device),
            )
            compiled.prepare(progress)
        finally:
            sequence.discard()
        self._network = compiled

    @torch.inference_mode()
    def forward(self, chunks: SequenceOf[Chunk]) -> list[torch.Tensor]:
        """Appends each chunk to its sequence; its logits [rows, columns]."""
        self._check(chunks)
        self._reserve(chunks)
        parts = [
            Part(
                token_ids=chunk.token_ids,
                start=len(chunk.sequence.prefix),
                table=chunk.sequence.table,
                rows=chunk.rows,
            )
            for chunk in chunks
            if chunk.token_ids
        ]
        logits = self._no_logits()
        if parts:
            logits = self._network.logits(PackedBatch.pack(parts, self.kv, self._varlen))
        for chunk in chunks:
            chunk.sequence.append(chunk.token_ids)
        return list(torch.split(logits, [chunk.rows for chunk in chunks]))

    def _take(self, kv: KvPool) -> None:
        layout = kv.layout
        self.kv = kv
        self.pool = BlockPool(
            kv.blocks, block_size=layout.block_size, block_bytes=layout.block_bytes
        )
        self.pool.copy = kv.copy
        self.context_length = min(self._longest, self.pool.capacity_tokens)

    def _check(self, chunks: SequenceOf[Chunk]) -> None:
        if any(chunk.sequence.pool is not self.pool for chunk in chunks):
            raise TypeError("the sequence is another model's")
        if len({id(chunk.sequence) for chunk in chunks}) < len(chunks):
            raise ValueError("two chunks of one sequence")
        for chunk in chunks:
            if len(chunk.sequence.prefix) + len(chunk.token_ids) > self.context_length:
                raise ValueError("beyond the context length")

    def _reserve(self, chunks: SequenceOf[Chunk]) -> None:
        """Slots for all new tokens, or none. Raises OutOfBlocks."""
        try:
            for chunk in chunks:
                chunk.sequence.reserve(len(chunk.token_ids))
        except OutOfBlocks:
            for chunk in chunks:
                chunk.sequence.rollback(len(chunk.sequence.prefix))
            raise

    def _no_logits(self) -> torch.Tensor:
        layout = self.kv.layout
        return torch.empty(0, len(self.columns), dtype=layout.dtype, device=layout.device)
