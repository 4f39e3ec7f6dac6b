"""A network compiled by torch.compile, as one graph that serves batches of all sizes.

Attention stays outside of the graph (opaque_attention.py); sizes of batches are symbols in it. On
a CPU the weights are constants of the graph, so that they are packed for the processor's matrix
kernels once; they take their memory a second time for that. On CUDA what lies between two
attentions is recorded as CUDA graphs, one for each size. These belong to the thread that recorded
them.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from outrider.engine.compiled_shapes import BatchShape, CompiledShapes
from outrider.engine.compiler import Compiler
from outrider.engine.eager_network import EagerNetwork
from outrider.engine.likeness import alike
from outrider.engine.load_error import ModelLoadError
from outrider.engine.opaque_attention import AttentionSite, OpaqueCache, RecordingCache
from outrider.engine.packed_batch import PackedBatch

Rows = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From `token_ids` and `positions` [1, T] and `wanted` [W] to logits [W, columns]."""

log = structlog.get_logger(__name__)


class CompiledNetwork:
    """Runs compiled what fits a shape, and as it is what does not."""

    def __init__(
        self,
        eager: EagerNetwork,
        *,
        smallest: PackedBatch,
        probe: PackedBatch,
        shapes: CompiledShapes,
        compiler: Compiler,
    ) -> None:
        """`probe`: a batch of state that nobody needs, all rows wanted, by which the compiled
        network is compared with the other. `smallest`: its last token."""
        self._eager = eager
        self._smallest = smallest
        self._probe = probe
        self._shapes = shapes
        self._compiler = compiler
        cache = RecordingCache(probe.pool, probe)
        self._expected = eager.rows(*_whole(probe), cache)
        self._site = AttentionSite(probe.pool, cache.scorings)
        self._refused: set[BatchShape] = set()
        self._compiled: Rows = compiler.compile(self._rows)

    def prepare(self, progress: Callable[[str], None]) -> None:
        """Compiles, and runs each shape, on the thread that is to serve. Raises ModelLoadError."""
        shapes = self._shapes.warm
        for number, shape in enumerate(shapes, start=1):
            progress(f"compiling {number} of {len(shapes)} shapes")
            try:
                with self._compiler.compiling():
                    for _ in range(self._compiler.runs):
                        self._run(self._smallest, shape)
            except FailOnRecompileLimitHit:
                self._refuse(shape)
            except Exception as error:
                raise self._refusal(f"cannot be compiled here: {_reason(error)}") from error
        for batch in (self._probe, self._smallest):
            if not alike(self.logits(batch), self._expected[-len(batch.wanted) :]):
                raise self._refusal("gives something else when it is compiled")

    def logits(self, batch: PackedBatch) -> torch.Tensor:
        """[wanted, columns]."""
        shape = self._shapes.fit(len(batch.token_ids), len(batch.wanted))
        if shape is None or shape in self._refused:
            return self._eager.logits(batch)
        try:
            return self._run(batch, shape)
        except FailOnRecompileLimitHit:
            self._refuse(shape)
            return self._eager.logits(batch)

    def _run(self, batch: PackedBatch, shape: BatchShape) -> torch.Tensor:
        inputs = (
            _padded(batch.token_ids, shape.tokens).unsqueeze(0),
            _padded(batch.positions, shape.tokens).unsqueeze(0),
            _padded(batch.wanted, shape.rows),
        )
        for tensor in inputs:
            torch._dynamo.mark_dynamic(tensor, tensor.dim() - 1)
        self._site.batch = batch
        try:
            rows = self._compiled(*inputs)[: len(batch.wanted)]
            return rows.clone() if self._compiler.reuses_output else rows
        finally:
            self._site.batch = None

    def _rows(
        self, token_ids: torch.Tensor, positions: torch.Tensor, wanted: torch.Tensor
    ) -> torch.Tensor:
        """What is compiled."""
        return self._eager.rows(token_ids, positions, wanted, OpaqueCache(self._site.number))

    def _refuse(self, shape: BatchShape) -> None:
        """From now on, batches of this shape run as they are: the graph does not hold for it."""
        if not self._refused:
            log.warning("some batches run uncompiled", size=shape.tokens, exc_info=True)
        self._refused.add(shape)

    def _refusal(self, what: str) -> ModelLoadError:
        kind = self._eager.model.config.model_type
        return ModelLoadError(
            f"compile: a model of type {kind} {what}; OUTRIDER_COMPILE=false runs it as it is"
        )


def _whole(batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return batch.token_ids.unsqueeze(0), batch.positions.unsqueeze(0), batch.wanted


def _padded(values: torch.Tensor, size: int) -> torch.Tensor:
    """Zeros behind `values` [n], up to [size]."""
    return torch.nn.functional.pad(values, (0, size - len(values)))


def _reason(error: BaseException) -> str:
    """What is at the bottom of a compiler's error, in one line."""
    inner = getattr(error, "inner_exception", None) or error
    lines = str(inner).strip().splitlines() or [""]
    return f"{type(inner).__name__}: {lines[0][:300]}"
