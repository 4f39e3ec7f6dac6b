"""How many processor threads the model's kernels use."""

from __future__ import annotations

import torch


def configure_threads(count: int) -> None:
    """Sets the threads of torch in this process. 0 leaves torch's choice, one for each core."""
    if count > 0:
        torch.set_num_threads(count)
