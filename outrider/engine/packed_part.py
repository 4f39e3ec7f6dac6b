"""One sequence's part of a packed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """New tokens of one sequence: `token_ids` at positions `start` and following.

    `table`: the sequence's blocks, those of the new tokens included. `rows`: for how many of the
    last tokens the logits are wanted.
    """

    token_ids: Sequence[int]
    start: int
    table: Sequence[int]
    rows: int

    @property
    def length(self) -> int:
        """Tokens of the sequence once the new ones are read."""
        return self.start + len(self.token_ids)

    def places(self, first: int, *, block_size: int) -> list[int]:
        """Where in the pool positions `first` and following are: block · block_size + offset."""
        return [
            self.table[position // block_size] * block_size + position % block_size
            for position in range(first, self.length)
        ]
