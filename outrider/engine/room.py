"""Blocks for the works of a batch: who is admitted, and who gives way when blocks run out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from outrider.engine.admission import WaitingLine
from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.engine.live_work import LiveWork
from outrider.engine.paged_sequence import Sequence
from outrider.errors import Exhausted

KEPT_SHARE = 16
"""One block of so many, at most, is kept for growth."""


class Room:
    """The room of one pool. A work whose sequence holds no blocks waits in line for them."""

    def __init__(self, pool: BlockPool, *, longest_line: int, wait_s: float) -> None:
        self._pool = pool
        self._line: WaitingLine[LiveWork[Any]] = WaitingLine(longest=longest_line, wait_s=wait_s)

    @property
    def deadline(self) -> float | None:
        """When somebody in line will have waited too long."""
        return self._line.deadline

    def admits(self, work: LiveWork[Any]) -> bool:
        """Whether it may take part in a forward."""
        return work not in self._line

    def admit(
        self, works: Collection[LiveWork[Any]], *, now: float
    ) -> list[tuple[LiveWork[Any], Exhausted]]:
        """Gives blocks for their whole chunks to those who are next; the refused, and why.

        `works`: all that are live. Nobody gives way to a work that is admitted.
        """
        self._line.keep(works)
        for work in works:
            if not work.sequence.table and work not in self._line:
                replay = work.sequence.preempted
                self._line.enter(work, replay=replay, arrived=work.arrived, now=now)
        for work in self._line.in_turn():
            if self._fits(work):
                work.adopt()
                work.sequence.reserve(work.left)
                self._line.leave(work)
            elif not self._line.may_be_passed(work, now):
                break
        return self._line.refuse(now)

    def reserve(
        self, sequence: Sequence, tokens: int, *, preempt: Callable[[Sequence], None]
    ) -> bool:
        """Blocks for the next tokens of an admitted sequence.

        Where there are none, the newest sequences give way, as long as they are newer; else this
        one does. False then.
        """
        while True:
            try:
                sequence.reserve(tokens)
            except OutOfBlocks:
                newest = next(reversed(self._pool.holders), sequence)
                preempt(newest)
                if newest is sequence:
                    return False
            else:
                return True

    def carries(self, sequence: Sequence, tokens: int) -> bool:
        """Blocks for the next tokens of a rider, if nobody else is in need of them."""
        spare = self._pool.available - self._kept
        if self._line or sequence.preempted or sequence.blocks_needed(tokens) > spare:
            return False
        sequence.reserve(tokens)
        return True

    def _fits(self, work: LiveWork[Any]) -> bool:
        sequence, spare = work.sequence, self._pool.available - self._kept
        needed = sequence.blocks_needed(work.left)
        return needed <= spare or needed - sequence.in_use_among(work.sought) <= spare

    @property
    def _kept(self) -> int:
        """Blocks for those that run to grow into: else who is admitted would soon give way."""
        return min(len(self._pool.holders), self._pool.blocks // KEPT_SHARE)
