"""How numbers that a batch is described by get to the device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch


def stage(columns: Sequence[Sequence[int]], *, device: torch.device) -> list[torch.Tensor]:
    """Columns of numbers as int64 tensors, moved in one copy that nobody waits for.

    They are parts of one tensor; the first lies at its beginning.
    """
    # A copy from memory that the system may move would be waited for.
    whole = torch.tensor(
        list(chain.from_iterable(columns)), dtype=torch.long, pin_memory=device.type == "cuda"
    )
    moved = whole.to(device, non_blocking=True)
    return list(torch.split(moved, [len(column) for column in columns]))
