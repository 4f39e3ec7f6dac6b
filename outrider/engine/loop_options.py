"""What can be chosen about a model loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What one forward takes, and who waits for how long.

    `token_budget`: most tokens of one forward. `prefill_slice`: most of them that come from long
    prompts; 0: as many as measured times allow without holding others up. `admission_queue`: new
    works that may wait for KV state; `admission_wait_s`: how long.
    """

    token_budget: int = 2048
    prefill_slice: int = 0
    admission_queue: int = 256
    admission_wait_s: float = 10.0
