"""Blocks: which are free, held and cached, and which give way."""

from __future__ import annotations

import pytest

from outrider.engine.block_key import block_key
from outrider.engine.block_pool import BlockPool, OutOfBlocks


def counts(pool: BlockPool) -> tuple[int, int, int]:
    return pool.in_use, pool.cached, pool.available


def test_a_pool_knows_its_size() -> None:
    pool = BlockPool(3, block_size=16, block_bytes=100)
    assert (pool.capacity_tokens, counts(pool)) == (48, (0, 0, 3))


@pytest.mark.parametrize(("blocks", "block_size"), [(0, 16), (1, 0)])
def test_an_empty_pool_is_refused(blocks: int, block_size: int) -> None:
    with pytest.raises(ValueError, match="pool"):
        BlockPool(blocks, block_size=block_size)


def test_blocks_are_taken_once_each_and_then_there_are_no_more() -> None:
    pool = BlockPool(3)
    assert {pool.take() for _ in range(3)} == {0, 1, 2}
    with pytest.raises(OutOfBlocks):
        pool.take()


def test_a_released_block_without_a_key_is_free_again() -> None:
    pool = BlockPool(2)
    pool.release([pool.take()])
    assert counts(pool) == (0, 0, 2)


def test_a_shared_block_stays_until_all_have_released_it() -> None:
    pool = BlockPool(2)
    block = pool.take()
    pool.share(block)
    pool.release([block])
    assert (pool.shared(block), counts(pool)) == (False, (1, 0, 1))
    pool.release([block])
    assert counts(pool) == (0, 0, 2)


def test_nobody_releases_what_nobody_holds() -> None:
    pool = BlockPool(2)
    with pytest.raises(RuntimeError, match="nobody"):
        pool.release([0])


def test_sealed_content_is_found_until_it_gives_way_oldest_first() -> None:
    pool = BlockPool(2)
    older, newer = pool.take(), pool.take()
    pool.seal(older, b"older")
    pool.seal(newer, b"newer")
    pool.release([older, newer])
    assert counts(pool) == (0, 2, 2)
    assert pool.take() == older
    assert (pool.find(b"older"), pool.find(b"newer")) == (None, newer)
    assert pool.statistics.evicted_blocks == 1


def test_use_makes_a_cached_block_young_again() -> None:
    pool = BlockPool(2)
    older, newer = pool.take(), pool.take()
    pool.seal(older, b"older")
    pool.seal(newer, b"newer")
    pool.release([older, newer])
    pool.share(older)
    pool.release([older])
    assert pool.take() == newer


def test_the_first_block_of_a_content_keeps_the_name() -> None:
    pool = BlockPool(2)
    first, second = pool.take(), pool.take()
    pool.seal(first, b"same")
    pool.seal(second, b"same")
    assert (pool.find(b"same"), pool.sealed(second)) == (first, False)


def test_a_stamp_tells_when_content_may_have_changed() -> None:
    pool = BlockPool(1)
    block = pool.take()
    stamp = pool.stamp(block)
    pool.shelve([block])
    assert (counts(pool), pool.stamp(block)) == ((0, 1, 1), stamp)
    assert pool.take() == block
    assert pool.stamp(block) != stamp


def test_a_forgotten_shelf_is_free_unless_it_was_used_meanwhile() -> None:
    pool = BlockPool(1)
    block = pool.take()
    stamp = pool.stamp(block)
    pool.shelve([block])
    pool.forget(block, stamp)
    assert counts(pool) == (0, 0, 1)
    pool.take()
    pool.forget(block, stamp)
    assert counts(pool) == (1, 0, 0)


def test_keys_differ_by_scope_by_parent_and_by_ids() -> None:
    keys = {
        block_key(scope, parent, ids)
        for scope in (b"", b"a")
        for parent in (b"", b"p" * 16)
        for ids in ((1, 2), (2, 1), (1, 2, 3))
    }
    assert len(keys) == 12
    assert all(len(key) == 16 for key in keys)


def test_scope_and_parent_never_run_into_each_other() -> None:
    assert block_key(b"ab", b"c", (1,)) != block_key(b"a", b"bc", (1,))
