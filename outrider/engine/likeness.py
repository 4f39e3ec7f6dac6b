"""When two computations of the same logits count as equal."""

from __future__ import annotations

import torch

TOLERANCES = {
    torch.float64: 1e-3,  # Some models count in float32 here and there.
    torch.float32: 1e-3,
    torch.float16: 0.05,
    torch.bfloat16: 0.25,
}
"""Largest root mean square of a row's error, as a share of the logits' spread."""


def alike(rows: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether rows [rows, size] differ by rounding only."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    errors = (rows.to(wide) - expected.to(wide)).pow(2).mean(dim=1).sqrt()
    spread = expected.to(wide).std().clamp_min(1e-6)
    # In short formats a router of experts may send single rows another way.
    worst = errors.max() if rows.dtype.itemsize >= 4 else errors.median()
    return bool(worst <= TOLERANCES[rows.dtype] * spread)
