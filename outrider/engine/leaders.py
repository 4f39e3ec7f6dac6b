"""The largest entries of each row, with a fixed order among equals."""

from __future__ import annotations

import torch

SET_SIZE = 16


def leaders(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest entries of each row and their columns, both [rows, count].

    Largest first; among equals the lower column comes first, and is the one that is kept where
    equals straddle the end. `rows` is [rows, columns], free of NaN, with at least `count` columns.
    """
    size = rows.shape[1]
    values, columns = _largest(rows, min(count + 1, size))
    if count < size:
        # topk breaks ties as it likes: one entry too many shows where that matters.
        straddles = values[:, count - 1] == values[:, count]
        values, columns = values[:, :count], columns[:, :count]
        for row in straddles.nonzero().flatten().tolist():
            last = values[row, -1]
            above = columns[row, values[row] > last]
            equal = (rows[row] == last).nonzero().flatten()
            columns[row] = torch.cat((above, equal[: count - above.numel()]))
    return _in_order(values, columns)


def leading(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As `leaders`, faster: of several entries equal to the last one, any may be those kept."""
    return _in_order(*_largest(rows, count))


def _in_order(values: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower column first among equals."""
    if bool((values[:, 1:] == values[:, :-1]).any()):
        columns, order = columns.sort(dim=1)
        values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
        columns = columns.gather(1, order)
    return values, columns


def _largest(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As topk, faster for few of many columns on a CPU.

    The `count` largest entries are in the `count` sets of columns with the largest maxima: any
    other set has nothing above the least of those. Column c is in set c % sets.
    """
    sets, rest = divmod(rows.shape[1], SET_SIZE)
    if rows.device.type != "cpu" or sets < 2 * count:
        return rows.topk(count, dim=1)
    whole = rows[:, : sets * SET_SIZE].view(-1, SET_SIZE, sets)
    _, best = whole.amax(dim=1).topk(count, dim=1, sorted=False)
    columns = (best.unsqueeze(2) + sets * torch.arange(SET_SIZE)).flatten(1)
    if rest:
        end = torch.arange(sets * SET_SIZE, rows.shape[1]).expand(rows.shape[0], rest)
        columns = torch.cat((columns, end), dim=1)
    values, places = rows.gather(1, columns).topk(count, dim=1)
    return values, columns.gather(1, places)
