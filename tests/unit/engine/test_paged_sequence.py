"""Sequences: reserving, rolling back, sharing and giving way, by example."""

from __future__ import annotations

import pytest

from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.engine.paged_sequence import Sequence

SIZE = 4


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(6, block_size=SIZE, block_bytes=10)


def read(sequence: Sequence, ids: range) -> None:
    sequence.reserve(len(ids))
    sequence.append(ids)


def opened(pool: BlockPool, ids: range, *, scope: bytes = b"") -> Sequence:
    sequence = Sequence(pool, scope=scope)
    read(sequence, ids)
    return sequence


def test_a_sequence_holds_as_many_blocks_as_its_ids_need(pool: BlockPool) -> None:
    sequence = opened(pool, range(5))
    assert (len(sequence.table), sequence.kv_bytes, pool.in_use) == (2, 20, 2)
    assert [sequence.blocks_needed(count) for count in (0, 3, 4, 8)] == [0, 0, 1, 2]


def test_a_reservation_is_all_or_nothing(pool: BlockPool) -> None:
    sequence = opened(pool, range(5))
    with pytest.raises(OutOfBlocks):
        sequence.reserve(20)
    assert (len(sequence.table), pool.available) == (2, 4)
    sequence.reserve(19)
    assert pool.available == 0
    sequence.rollback(5)
    assert pool.available == 4


def test_a_rollback_frees_whole_blocks_only(pool: BlockPool) -> None:
    sequence = opened(pool, range(9))
    sequence.rollback(6)
    assert (list(sequence.prefix.token_ids), pool.in_use) == (list(range(6)), 2)
    sequence.rollback(0)
    assert (pool.in_use, pool.available, pool.holders) == (0, 6, {})


def test_the_writer_of_a_shared_block_gets_a_copy(pool: BlockPool) -> None:
    copies: list[tuple[int, int]] = []
    pool.copy = lambda source, destination: copies.append((source, destination))
    one = opened(pool, range(6))
    two = one.fork()
    assert (pool.in_use, two.table) == (2, one.table)
    assert two.blocks_needed(1) == 1
    read(two, range(1))
    assert copies == [(one.table[1], two.table[1])]
    assert one.table[0] == two.table[0]
    read(one, range(1))
    assert len(copies) == 1


def test_a_write_into_a_sealed_block_leaves_the_sealed_one_to_be_found(pool: BlockPool) -> None:
    one = opened(pool, range(4))
    one.seal(4)
    sealed = one.table[0]
    one.rollback(2)
    read(one, range(7, 9))
    assert one.table[0] != sealed
    assert Sequence(pool).adopt(range(4)) == 4


def test_without_room_for_a_copy_the_seal_is_given_up(pool: BlockPool) -> None:
    one = opened(pool, range(24))
    one.seal(24)
    one.rollback(22)
    assert (one.blocks_needed(2), pool.available) == (0, 0)
    read(one, range(2))
    assert pool.available == 0


def test_adoption_takes_whole_blocks_from_a_block_border(pool: BlockPool) -> None:
    one = opened(pool, range(10))
    one.seal(10)
    two = Sequence(pool)
    assert two.adopt(range(10)) == 8
    assert two.table == one.table[:2]
    read(two, range(8, 9))
    assert two.adopt(range(9, 20)) == 0
    assert (pool.statistics.prefix_asked_tokens, pool.statistics.prefix_hit_tokens) == (10, 8)


def test_adoption_replaces_what_was_reserved(pool: BlockPool) -> None:
    two = Sequence(pool)
    two.reserve(8)
    one = opened(pool, range(8))
    one.seal(8)
    assert pool.in_use == 4
    assert two.adopt(range(8)) == 8
    assert pool.in_use == 2


def test_only_what_is_final_is_found(pool: BlockPool) -> None:
    one = opened(pool, range(8))
    one.seal(6)
    assert Sequence(pool).adopt(range(8)) == 4


def test_another_scope_finds_nothing(pool: BlockPool) -> None:
    opened(pool, range(8), scope=b"a").seal(8)
    assert Sequence(pool, scope=b"b").adopt(range(8)) == 0
    assert Sequence(pool, scope=b"a").adopt(range(8)) == 8


def test_equal_blocks_behind_another_beginning_are_not_the_same(pool: BlockPool) -> None:
    opened(pool, range(8)).seal(8)
    other = opened(pool, range(4, 8))
    assert other.adopt(range(4, 8)) == 0


def test_a_preempted_sequence_says_what_it_had_and_finds_it_again(pool: BlockPool) -> None:
    one = opened(pool, range(10))
    assert one.preempt() == list(range(10))
    assert (one.preempted, pool.in_use, pool.statistics.preemptions) == (True, 0, 1)
    assert one.adopt(range(10)) == 8
    assert not one.preempted


def test_the_end_of_a_prefix_gives_way_before_its_beginning(pool: BlockPool) -> None:
    one = opened(pool, range(12))
    one.preempt()
    opened(pool, range(100, 116))
    assert one.adopt(range(12)) == 8


def test_a_parked_sequence_finds_its_blocks_again_the_last_part_included(pool: BlockPool) -> None:
    one = opened(pool, range(6))
    table = list(one.table)
    one.park()
    assert (one.parked, pool.in_use, pool.available) == (True, 0, 6)
    one.unpark()
    assert (one.table, len(one.prefix), pool.in_use) == (table, 6, 2)


def test_a_parked_sequence_does_not_find_what_its_twin_gave_up(pool: BlockPool) -> None:
    one = opened(pool, range(3))
    two = one.fork()
    one.park()
    two.clear()
    one.unpark()
    assert (len(one.prefix), pool.in_use, pool.available) == (0, 0, 6)


def test_discarded_state_is_not_found_by_anybody(pool: BlockPool) -> None:
    one = opened(pool, range(8))
    one.seal(8)
    one.discard()
    assert Sequence(pool).adopt(range(8)) == 0
    assert (pool.in_use, pool.cached) == (0, 0)


def test_holders_stand_in_the_order_of_their_coming(pool: BlockPool) -> None:
    one, two = opened(pool, range(1)), opened(pool, range(1))
    one.clear()
    read(one, range(1))
    assert list(pool.holders) == [two, one]
