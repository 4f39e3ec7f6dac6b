"""How far a Round lets the draft go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """Of the round with that number. Lengths in ids, prompt included.

    Tokens below `together_until`, or `until` where that is 0, are given together, those from there
    on with each forward; nothing is drawn from `until` on, and nothing copied from `copy_until` on,
    or `until` where that is less. `branches`: most side branches that grow at a time, each with
    `branch_length` tokens below its first; `acceptance` says where they are likely to be needed, 0
    if that is not known.
    """

    number: int
    committed_length: int
    until: int
    together_until: int = 0
    copy_until: int = 0
    branches: int = 0
    branch_length: int = 0
    acceptance: float = 0.0

    @property
    def answered_from(self) -> int:
        """The first answer has all tokens below that length."""
        return self.together_until or self.until

    @property
    def copies_until(self) -> int:
        """Nothing is drafted from that length on."""
        return max(self.until, self.copy_until)
