"""Which tokens the next forward reads: small chunks first, then parts of long prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

SMALL_TOKENS = 32
"""A chunk of no more tokens is never cut: draft steps, verification, plain decoding."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A chunk that waits for a forward.

    `left`: tokens that no forward has read yet; the logits of the last `rows` are wanted, so
    they stay together. `arrived`: seconds, when its job came. `behind`: ids before the chunk.
    `served`: number of the forward that its generation had last, 0 for none. `next_block`: equal
    for two chunks that would read the same ids behind the same prefix; None: nothing is shared.
    """

    left: int
    rows: int
    arrived: float
    behind: int = 0
    served: int = 0
    next_block: Hashable | None = None

    @property
    def small(self) -> bool:
        """It is read whole or not at all."""
        return self.left <= max(SMALL_TOKENS, self.rows)

    def part(self, tokens: int) -> int:
        """The longest part of no more than `tokens` tokens that may be read now.

        Either everything, or what leaves the wanted rows for later.
        """
        if self.small or tokens >= self.left:
            return self.left
        return max(0, min(tokens, self.left - max(1, self.rows)))


def schedule(
    pending: Sequence[Pending],
    *,
    token_budget: int,
    prefill_budget: Callable[[int], int],
    prompts_due: bool = False,
) -> list[int]:
    """How many tokens of each chunk the next forward reads; 0 for those it leaves out.

    Small chunks go first, the generation that was served longest ago before the others, as far
    as `token_budget` allows; a part of it is kept for prompts that wait. `prefill_budget`: from
    the tokens of the small chunks to those that parts of prompts may add. A forward that somebody
    waits for with their first token leaves prompts out, unless `prompts_due`: the one before did.
    """
    counts = [0] * len(pending)
    small = [index for index, chunk in enumerate(pending) if chunk.small]
    long = [index for index, chunk in enumerate(pending) if not chunk.small]
    room = token_budget - (min(SMALL_TOKENS, token_budget // 2) if long else 0)
    taken = 0
    for index in sorted(small, key=lambda index: (pending[index].served, pending[index].arrived)):
        left = pending[index].left
        if taken and taken + left > room:
            break
        counts[index] = left
        taken += left
    first = any(counts[index] and pending[index].served == 0 for index in small)
    if long and (prompts_due or not first):
        tokens = max(1, min(prefill_budget(taken), token_budget - taken))
        for index, count in _share(pending, _without_twins(pending, long), tokens):
            counts[index] = count
    return counts


def _without_twins(pending: Sequence[Pending], indices: Sequence[int]) -> list[int]:
    """Oldest first. Of those that would read the same, one reads and the others find its blocks
    afterwards."""
    kept: list[int] = []
    reading: set[Hashable] = set()
    for index in sorted(indices, key=lambda index: pending[index].arrived):
        block = pending[index].next_block
        if block is None or block not in reading:
            kept.append(index)
        if block is not None:
            reading.add(block)
    return kept


def _share(
    pending: Sequence[Pending], oldest_first: Sequence[int], tokens: int
) -> list[tuple[int, int]]:
    """Half for the oldest; of the rest, who has least left goes first. The oldest gets what
    nobody else needs."""
    oldest, others = oldest_first[0], list(oldest_first[1:])
    spare = tokens - min(pending[oldest].left, math.ceil(tokens / 2))
    shares: list[tuple[int, int]] = []
    for index in sorted(others, key=lambda index: (pending[index].left, pending[index].arrived)):
        count = pending[index].part(spare) if spare > 0 else 0
        if 0 < count <= spare:
            shares.append((index, count))
            spare -= count
    given = sum(count for _, count in shares)
    return [(oldest, pending[oldest].part(tokens - given)), *shares]
