"""Random histories of sequences in one pool: every position has the state of its own prefix.

The state of a position is a function of the ids up to it. Here its place in a block holds just
that, the prefix's digest, written as a forward would write it.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.engine.paged_sequence import Sequence

BLOCKS = 16
BLOCK_SIZE = 2
SCOPES = (b"one", b"two")
NUMBER = st.integers(0, 19)

# Few ids, so that sequences often have the same prefix.
ids = st.lists(st.integers(0, 1), min_size=1, max_size=9)


class Histories(RuleBasedStateMachine):
    """Sequences grow, roll back, fork, share, give way and come back in any order."""

    copies = True

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS, block_size=BLOCK_SIZE, block_bytes=1)
        self.memory = [[(b"", 0)] * BLOCK_SIZE for _ in range(BLOCKS)]
        if self.copies:
            self.pool.copy = self.copy
        self.live: list[Sequence] = []
        self.parked: list[Sequence] = []

    def copy(self, source: int, destination: int) -> None:
        self.memory[destination] = list(self.memory[source])

    def write(self, sequence: Sequence, token_ids: SequenceOf[int]) -> None:
        before = len(sequence.prefix)
        sequence.append(token_ids)
        for position in range(before, len(sequence.prefix)):
            index, place = divmod(position, BLOCK_SIZE)
            self.memory[sequence.table[index]][place] = self.expected(sequence, position)

    def expected(self, sequence: Sequence, position: int) -> tuple[bytes, int]:
        return sequence.scope, sequence.prefix.digest(position + 1)

    def pick(self, number: int) -> Sequence:
        return self.live[number % len(self.live)]

    @rule(scope=st.sampled_from(SCOPES))
    def new(self, scope: bytes) -> None:
        if len(self.live) < 6:
            self.live.append(Sequence(self.pool, scope=scope))

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, token_ids=ids)
    def extend(self, number: int, token_ids: list[int]) -> None:
        sequence = self.pick(number)
        table, needed = list(sequence.table), sequence.blocks_needed(len(token_ids))
        available = self.pool.available
        try:
            sequence.reserve(len(token_ids))
        except OutOfBlocks:
            assert needed > available
            assert sequence.table == table
            return
        assert needed <= available
        self.write(sequence, token_ids)

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, token_ids=ids, left=st.integers(0, 3))
    def adopt_then_extend(self, number: int, token_ids: list[int], left: int) -> None:
        sequence = self.pick(number)
        free = sequence.adopt(token_ids[: len(token_ids) - left])
        assert free % BLOCK_SIZE == 0
        if token_ids[free:]:
            self.extend(number, token_ids[free:])

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, drop=st.integers(0, 12))
    def roll_back(self, number: int, drop: int) -> None:
        sequence = self.pick(number)
        kept = list(sequence.prefix.token_ids)[: max(0, len(sequence.prefix) - drop)]
        sequence.rollback(len(kept))
        assert list(sequence.prefix.token_ids) == kept

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, drop=st.integers(0, 12))
    def seal(self, number: int, drop: int) -> None:
        sequence = self.pick(number)
        sequence.seal(max(0, len(sequence.prefix) - drop))

    @precondition(lambda self: self.live)
    @rule(number=NUMBER)
    def fork(self, number: int) -> None:
        if len(self.live) < 6:
            self.live.append(self.pick(number).fork())

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, way=st.sampled_from(["clear", "preempt", "discard"]))
    def give_back(self, number: int, way: str) -> None:
        sequence = self.pick(number)
        ids = list(sequence.prefix.token_ids)
        answer = getattr(sequence, way)()
        assert (len(sequence.prefix), sequence.table, sequence.kv_bytes) == (0, [], 0)
        if way == "preempt":
            assert answer == ids
            assert sequence.preempted

    @precondition(lambda self: self.live)
    @rule(number=NUMBER)
    def hand_over(self, number: int) -> None:
        place = number % len(self.live)
        old, table = self.live[place], list(self.live[place].table)
        self.live[place] = old.hand_over()
        assert old.revoked
        assert (old.table, self.live[place].table) == ([], table)

    @precondition(lambda self: self.live)
    @rule(number=NUMBER)
    def park(self, number: int) -> None:
        sequence = self.live.pop(number % len(self.live))
        sequence.park()
        assert sequence.kv_bytes == 0
        self.parked.append(sequence)

    @precondition(lambda self: self.parked)
    @rule(number=NUMBER)
    def unpark(self, number: int) -> None:
        sequence = self.parked.pop(number % len(self.parked))
        before = list(sequence.prefix.token_ids)
        sequence.unpark()
        assert before[: len(sequence.prefix)] == list(sequence.prefix.token_ids)
        self.live.append(sequence)

    @precondition(lambda self: self.parked)
    @rule(number=NUMBER)
    def forget_parked(self, number: int) -> None:
        self.parked.pop(number % len(self.parked)).revoke()

    @invariant()
    def every_position_has_the_state_of_its_prefix(self) -> None:
        for sequence in self.live:
            assert len(sequence.table) * BLOCK_SIZE >= len(sequence.prefix)
            for position in range(len(sequence.prefix)):
                index, place = divmod(position, BLOCK_SIZE)
                held = self.memory[sequence.table[index]][place]
                assert held == self.expected(sequence, position)

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        held = {block for sequence in self.live for block in sequence.table}
        assert self.pool.in_use == len(held)
        assert self.pool.available == BLOCKS - len(held)
        assert set(self.pool.holders) == {each for each in self.live if each.table}

    def teardown(self) -> None:
        for sequence in [*self.live, *self.parked]:
            sequence.revoke()
        assert self.pool.in_use == 0


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


class WithoutCopies(Histories):
    """A pool that gives a shared block's writer a new block, but not its content."""

    copies = False


class WithoutStamps(Histories):
    """A pool that never notices that a block's content changed."""

    def __init__(self) -> None:
        super().__init__()
        self.pool.stamp = lambda block: 0  # type: ignore[method-assign]


class WithoutScopes(Histories):
    """Content of one scope is found in another."""

    @rule(scope=st.sampled_from(SCOPES))
    def new(self, scope: bytes) -> None:
        if len(self.live) < 6:
            self.live.append(_Unscoped(self.pool, scope=scope))


class _Unscoped(Sequence):
    def _next_key(self, token_ids: SequenceOf[int]) -> bytes:
        scope, self.scope = self.scope, b""
        key = super()._next_key(token_ids)
        self.scope = scope
        return key


@pytest.mark.parametrize("fault", [WithoutCopies, WithoutStamps, WithoutScopes])
def test_the_histories_find_a_planted_fault(fault: type[Histories]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(
            fault,
            settings=settings(
                max_examples=1000,
                stateful_step_count=50,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            ),
        )
