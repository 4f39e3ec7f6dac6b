"""Tries at start what the installed kernels for sequences of any lengths can do."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.attention.varlen import varlen_attn

from outrider.engine.kv_pool import KvLayout, KvPool
from outrider.engine.mask_rule import MaskRule, causal_mask_function
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.packed_part import Part
from outrider.engine.paged_attention import paged_attention
from outrider.engine.scoring import Scoring
from outrider.engine.varlen_attention import DTYPES, Varlen, VarlenKernel

TOLERANCE = 0.02
"""Largest error against `paged_attention`, for values that are normally distributed."""


def find_varlen_kernel(layout: KvLayout) -> VarlenKernel | None:
    """The best kernel that gives the right answers on the layout's device, or None."""
    if layout.device.type != "cuda" or layout.dtype not in DTYPES:
        return None
    return best_varlen_kernel(layout, varlen_attn)


def best_varlen_kernel(layout: KvLayout, attend: Varlen) -> VarlenKernel | None:
    """The first of: with block tables, without them, none."""
    kernels = (VarlenKernel(attend, takes_tables) for takes_tables in (True, False))
    return next((kernel for kernel in kernels if agrees(kernel, layout)), None)


@torch.inference_mode()
def agrees(kernel: VarlenKernel, layout: KvLayout) -> bool:
    """Whether it gives what `paged_attention` gives, with and without a window.

    Places of no token are NaN here, so that a kernel that reads them gives itself away.
    """
    size = layout.block_size
    pool = KvPool(replace(layout, layers=tuple(dict.fromkeys(layout.layers))), blocks=8)
    parts = [
        Part([0, 0, 0], start=size, table=[5, 2], rows=0),
        Part([0] * (size - 1), start=2 * size, table=[4, 7, 1], rows=0),
        Part([0], start=0, table=[6], rows=0),
    ]
    batch = PackedBatch.pack(parts, pool)
    varlen = kernel.prepare([part for group in batch.parts for part in group], pool)
    places = [place for part in parts for place in part.places(0, block_size=size)]
    for keys, values in zip(pool.keys, pool.values, strict=True):
        for tensor in (keys, values):
            tensor[:-1] = torch.nan
            tensor.flatten(0, 1)[places] = torch.randn_like(tensor.flatten(0, 1)[places])
        query = keys.new_empty(len(batch.token_ids), 2 * keys.shape[2], keys.shape[3]).normal_()
        for scoring in _scorings(size):
            expected = paged_attention(batch, query, keys, values, scoring)
            try:
                answer = varlen.attend(query, keys, values, scoring)
            except (RuntimeError, ValueError, TypeError, NotImplementedError):
                return False
            if not float((answer - expected).abs().max()) < TOLERANCE:
                return False
    return True


def _scorings(window: int) -> tuple[Scoring, Scoring]:
    def within(
        batch: torch.Tensor, head: torch.Tensor, looking: torch.Tensor, looked_at: torch.Tensor
    ) -> torch.Tensor:
        return (looked_at <= looking) & (looked_at > looking - window)

    return (
        Scoring(MaskRule(causal_mask_function, None), scaling=0.125),
        Scoring(MaskRule(within, window), scaling=0.125, window=window),
    )
