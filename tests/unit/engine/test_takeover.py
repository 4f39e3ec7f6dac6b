"""A stream that takes a handle over does not spoil work under way for the stream before it."""

from __future__ import annotations

from outrider.engine.block_pool import BlockPool
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Sequence
from outrider.prefix import EMPTY_DIGEST, TokenPrefix

SCOPE = b""
IDS = [1, 2, 3]


def table_with_work() -> tuple[HandleTable, str, Sequence]:
    """A table, a handle that stream b has taken over, and the sequence stream a works on."""
    pool = BlockPool(20, block_size=2)
    table = HandleTable(lambda scope: Sequence(pool, scope=scope), max_handles=4)
    handle_id = table.open(None, owner="a", scope=SCOPE)
    sequence = table.attach(handle_id, owner="a", base_length=0, prefix_digest=EMPTY_DIGEST)
    assert not isinstance(sequence, StateLost)
    sequence.reserve(len(IDS))
    sequence.append(IDS)
    assert table.open(handle_id, owner="b", scope=SCOPE) == handle_id
    return table, handle_id, sequence


def test_the_work_before_can_tell_that_it_has_lost_the_state() -> None:
    table, handle_id, sequence = table_with_work()
    assert sequence.revoked
    assert sequence.table == []
    heir = table.attach(
        handle_id, owner="b", base_length=3, prefix_digest=TokenPrefix(IDS).digest(3)
    )
    assert isinstance(heir, Sequence)
    assert list(heir.prefix.token_ids) == IDS


def test_another_prefix_clears_the_state_for_its_new_owner() -> None:
    table, handle_id, sequence = table_with_work()
    answer = table.attach(handle_id, owner="b", base_length=2, prefix_digest=EMPTY_DIGEST + 1)
    assert answer == StateLost(0)
    fresh = table.attach(handle_id, owner="b", base_length=0, prefix_digest=EMPTY_DIGEST)
    assert isinstance(fresh, Sequence)
    assert fresh is not sequence
    assert len(fresh.prefix) == 0


def test_blocks_are_held_once_after_a_takeover() -> None:
    _, _, sequence = table_with_work()
    assert sequence.pool.in_use == 2
    assert len(sequence.pool.holders) == 1
