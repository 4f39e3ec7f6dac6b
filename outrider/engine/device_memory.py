"""How much memory there is for KV state, and how much of it a pool takes."""

from __future__ import annotations

from os import sysconf
from pathlib import Path

import torch

from outrider.engine.load_error import ModelLoadError
from outrider.memory_budget import MemoryBudget

AUTO_SHARE_OF_PROCESSORS = 0.25
"""Of a machine's memory: others live there too, the other worker among them."""
AUTO_SHARE_OF_ACCELERATOR = 0.85
"""Of a device's memory beside the weights: what is left is for the forward itself."""
AUTO_CONTEXTS = 64
"""By itself a pool is never made for more full contexts than these."""

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def kv_pool_bytes(
    budget: MemoryBudget, *, device: torch.device, weights_bytes: int, context_bytes: int
) -> int:
    """Bytes of the KV pool on `device`, whose weights are loaded already.

    A share is one of the memory beside the weights. `context_bytes`: KV state of one sequence as
    long as the context. By itself (`auto`) a pool takes 25 % beside the weights on a CPU and 85 %
    on an accelerator, and no more than 64 full contexts need. Raises ModelLoadError for more bytes
    than the machine has, which its system would promise all the same.
    """
    if budget.size is not None:
        if device.type == "cpu" and budget.size > (most := machine_memory()):
            raise ModelLoadError(f"kv_memory: {budget.size} bytes, and there are {most} in all")
        return budget.size
    free = memory_beside_weights(device, weights_bytes=weights_bytes)
    if budget.share is not None:
        return int(free * budget.share)
    accelerated = device.type != "cpu"
    share = AUTO_SHARE_OF_ACCELERATOR if accelerated else AUTO_SHARE_OF_PROCESSORS
    return min(int(free * share), AUTO_CONTEXTS * context_bytes)


def memory_beside_weights(device: torch.device, *, weights_bytes: int) -> int:
    """Bytes that nothing has taken yet on a CUDA device, else what weights leave of the whole."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - weights_bytes)
    return max(0, machine_memory() - weights_bytes)


def machine_memory() -> int:
    """Bytes of this machine's memory, or of this container's limit where that is less."""
    limits = [sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # No such file, or `max`.
            continue
    return min(limits)
