"""The largest entries of each row, with a fixed order among equals."""

from __future__ import annotations

import torch


def leaders(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest entries of each row and their columns, both [rows, count].

    Largest first; among equals the lower column comes first, and is the one that is kept where
    equals straddle the end. `rows` is [rows, columns], free of NaN, with at least `count` columns.
    """
    size = rows.shape[1]
    values, columns = rows.topk(min(count + 1, size), dim=1)
    has_equals = bool((values[:, 1:] == values[:, :-1]).any())
    if count < size:
        # topk breaks ties as it likes: one entry too many shows where that matters.
        straddles = values[:, count - 1] == values[:, count]
        values, columns = values[:, :count], columns[:, :count]
        for row in straddles.nonzero().flatten().tolist():
            columns[row] = _kept(rows[row], values[row, -1], count)
            values[row] = rows[row, columns[row]]
    if has_equals:
        columns, order = columns.sort(dim=1)
        values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
        columns = columns.gather(1, order)
    return values, columns


def _kept(row: torch.Tensor, last: torch.Tensor, count: int) -> torch.Tensor:
    """Columns above the last value kept, then the lowest of those equal to it, [count]."""
    above = (row > last).nonzero().flatten()
    equal = (row == last).nonzero().flatten()
    return torch.cat((above, equal[: count - above.numel()]))
