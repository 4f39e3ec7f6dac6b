"""Handles: who may use a state, how long it is kept, and what gives way when room is needed."""

from __future__ import annotations

import pytest

from outrider.engine.block_pool import BlockPool
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Sequence
from outrider.errors import Exhausted, InvalidRequest
from outrider.prefix import EMPTY_DIGEST, TokenPrefix

SCOPE = b"tenant"
LEASE_S = 30.0
BLOCK_SIZE = 2


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> HandleTable:
    return make_table(clock)


def make_table(clock: Clock, *, max_handles: int = 4, pool: BlockPool | None = None) -> HandleTable:
    blocks = pool or BlockPool(50, block_size=BLOCK_SIZE)
    return HandleTable(
        lambda scope: Sequence(blocks, scope=scope),
        max_handles=max_handles,
        lease_s=LEASE_S,
        clock=clock,
    )


def read(sequence: Sequence, ids: list[int]) -> None:
    """What a forward does."""
    sequence.reserve(len(ids))
    sequence.append(ids)


def digest(token_ids: list[int]) -> int:
    return TokenPrefix(token_ids).digest(len(token_ids))


def attach(
    table: HandleTable, handle_id: str, base: list[int], *, owner: str = "a"
) -> Sequence | StateLost:
    return table.attach(handle_id, owner=owner, base_length=len(base), prefix_digest=digest(base))


def attached(table: HandleTable, handle_id: str, base: list[int], *, owner: str = "a") -> Sequence:
    found = attach(table, handle_id, base, owner=owner)
    assert not isinstance(found, StateLost)
    return found


def opened(table: HandleTable, ids: list[int], *, owner: str = "a") -> str:
    """A new handle whose state has read `ids`."""
    handle_id = table.open(None, owner=owner, scope=SCOPE)
    read(attached(table, handle_id, [], owner=owner), ids)
    return handle_id


def test_ids_are_long_and_never_the_same(table: HandleTable) -> None:
    ids = {table.open(None, owner=str(number), scope=SCOPE) for number in range(4)}
    assert len(ids) == 4
    assert all(len(handle_id) == 32 and int(handle_id, 16) >= 0 for handle_id in ids)


def test_attach_cuts_back_to_the_base(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2, 3, 4])
    assert list(attached(table, handle_id, [1, 2]).prefix.token_ids) == [1, 2]


@pytest.mark.parametrize(
    ("following", "kept"),
    [([], 2), ([3], 3), ([3, 4], 4), ([3, 4, 5], 4), ([3, 9, 4], 3), ([9, 3, 4], 2)],
)
def test_attach_keeps_what_is_known_to_follow_the_base(
    table: HandleTable, following: list[int], kept: int
) -> None:
    handle_id = opened(table, [1, 2, 3, 4])
    base = [1, 2]
    sequence = table.attach(
        handle_id,
        owner="a",
        base_length=len(base),
        prefix_digest=digest(base),
        following=following,
    )
    assert not isinstance(sequence, StateLost)
    assert list(sequence.prefix.token_ids) == [1, 2, 3, 4][:kept]


def test_only_work_under_way_of_the_owner_is_recalled(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2])
    table.recall(handle_id, owner="a")
    assert not attached(table, handle_id, [1, 2]).recalled
    work = table.working_on(handle_id, owner="a", base_length=0, prefix_digest=EMPTY_DIGEST)
    with work as sequence:
        assert not isinstance(sequence, StateLost)
        table.recall(handle_id, owner="b")
        assert not sequence.recalled
        table.recall(handle_id, owner="a")
        assert sequence.recalled
    assert not attached(table, handle_id, []).recalled


def test_a_state_that_is_too_short_says_what_it_has(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2, 3])
    assert attach(table, handle_id, [1, 2, 3, 4, 5]) == StateLost(3)
    assert len(attached(table, handle_id, [1, 2, 3]).prefix) == 3


def test_a_state_with_other_ids_is_cleared(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2, 3])
    assert attach(table, handle_id, [1, 9, 3]) == StateLost(0)
    assert len(attached(table, handle_id, []).prefix) == 0


def test_a_wrong_digest_of_nothing_is_the_callers_fault(table: HandleTable) -> None:
    handle_id = opened(table, [1])
    with pytest.raises(InvalidRequest, match="prefix_digest"):
        table.attach(handle_id, owner="a", base_length=0, prefix_digest=7)


def test_a_new_stream_takes_state_over_and_the_old_one_loses_it(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2])
    assert table.open(handle_id, owner="b", scope=SCOPE) == handle_id
    assert attach(table, handle_id, [1, 2], owner="a") == StateLost(0)
    table.release(handle_id, owner="a")
    table.lease(handle_id, owner="a")
    assert table.status().in_use == 1
    assert len(attached(table, handle_id, [1, 2], owner="b").prefix) == 2


@pytest.mark.parametrize("wanted", ["unknown", "0" * 32])
def test_an_unknown_handle_gives_new_state(table: HandleTable, wanted: str) -> None:
    assert table.open(wanted, owner="a", scope=SCOPE) != wanted


def test_another_scope_never_gets_the_state(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2])
    table.lease(handle_id, owner="a")
    other = table.open(handle_id, owner="b", scope=b"another tenant")
    assert other != handle_id
    assert len(attached(table, other, [], owner="b").prefix) == 0


def test_release_frees_at_once(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2])
    table.release(handle_id, owner="a")
    status = table.status()
    assert (status.in_use, status.leased, status.kv_tokens) == (0, 0, 0)
    assert table.open(handle_id, owner="a", scope=SCOPE) != handle_id


def test_a_lease_keeps_state_until_it_ends(table: HandleTable, clock: Clock) -> None:
    handle_id = opened(table, [1, 2])
    table.lease(handle_id, owner="a")
    clock.now += LEASE_S - 1
    status = table.status()
    assert (status.in_use, status.leased, status.kv_tokens) == (0, 1, 2)
    clock.now += 1
    assert table.status().leased == 0
    assert table.open(handle_id, owner="b", scope=SCOPE) != handle_id


def test_a_lease_of_nothing_is_not_kept(table: HandleTable) -> None:
    table.lease(opened(table, []), owner="a")
    assert table.status().leased == 0


def test_a_silent_stream_loses_its_pin_and_may_come_back(table: HandleTable, clock: Clock) -> None:
    handle_id = opened(table, [1, 2])
    table.status()
    clock.now += LEASE_S
    assert (table.status().in_use, table.status().leased) == (0, 1)
    assert len(attached(table, handle_id, [1, 2]).prefix) == 2
    assert (table.status().in_use, table.status().leased) == (1, 0)


def test_a_stream_that_comes_back_too_late_starts_again_under_its_handle(
    table: HandleTable, clock: Clock
) -> None:
    handle_id = opened(table, [1, 2])
    clock.now += LEASE_S
    table.status()
    clock.now += 2 * LEASE_S
    assert table.status().kv_tokens == 0
    assert attach(table, handle_id, [1, 2]) == StateLost(0)
    assert len(attached(table, handle_id, []).prefix) == 0
    assert table.status().in_use == 1


def test_a_stream_that_is_worked_for_is_not_silent(table: HandleTable, clock: Clock) -> None:
    handle_id = table.open(None, owner="a", scope=SCOPE)
    with table.working_on(
        handle_id, owner="a", base_length=0, prefix_digest=EMPTY_DIGEST
    ) as sequence:
        assert isinstance(sequence, Sequence)
        clock.now += 3 * LEASE_S
        read(sequence, [1, 2, 3])
        assert table.status().in_use == 1
    clock.now += LEASE_S - 1
    assert table.status().in_use == 1
    assert len(attached(table, handle_id, [1, 2, 3]).prefix) == 3


def test_work_that_ends_late_leaves_a_newer_owner_alone(table: HandleTable, clock: Clock) -> None:
    handle_id = table.open(None, owner="a", scope=SCOPE)
    with table.working_on(handle_id, owner="a", base_length=0, prefix_digest=EMPTY_DIGEST):
        table.lease(handle_id, owner="a")
        assert table.open(handle_id, owner="b", scope=SCOPE) != handle_id
    assert table.status().in_use == 1


def test_the_oldest_lease_gives_way_to_a_new_stream(clock: Clock) -> None:
    table = make_table(clock, max_handles=2)
    older, newer = opened(table, [1], owner="a"), opened(table, [2], owner="b")
    table.lease(older, owner="a")
    clock.now += 1
    table.lease(newer, owner="b")
    opened(table, [3], owner="c")
    assert table.open(newer, owner="d", scope=SCOPE) == newer
    with pytest.raises(Exhausted):
        table.open(older, owner="e", scope=SCOPE)


def test_pinned_states_never_give_way(clock: Clock) -> None:
    table = make_table(clock, max_handles=2)
    opened(table, [1], owner="a")
    opened(table, [2], owner="b")
    with pytest.raises(Exhausted) as refusal:
        table.open(None, owner="c", scope=SCOPE)
    assert refusal.value.retry_after_s is not None
    assert refusal.value.retry_after_s > 0


def test_leased_state_gives_way_to_growth_from_its_end(clock: Clock) -> None:
    pool = BlockPool(4, block_size=BLOCK_SIZE)
    table = make_table(clock, pool=pool)
    leased = opened(table, [1, 1, 1, 1, 1], owner="a")
    table.lease(leased, owner="a")
    assert (pool.in_use, pool.cached) == (0, 3)
    opened(table, [2, 2, 2, 2], owner="b")
    assert table.open(leased, owner="c", scope=SCOPE) == leased
    assert attach(table, leased, [1] * 5, owner="c") == StateLost(4)
    assert len(attached(table, leased, [1] * 4, owner="c").prefix) == 4


def test_all_blocks_come_back(clock: Clock) -> None:
    pool = BlockPool(8, block_size=BLOCK_SIZE)
    table = make_table(clock, pool=pool)
    released, left = opened(table, [1] * 5, owner="a"), opened(table, [2] * 3, owner="b")
    assert pool.in_use == 5
    table.release(released, owner="a")
    table.lease(left, owner="b")
    assert (pool.in_use, pool.available) == (0, 8)
    clock.now += LEASE_S
    assert table.status().leased == 0
    assert (pool.in_use, pool.available) == (0, 8)


def test_what_a_stream_read_is_found_by_the_next_one(clock: Clock) -> None:
    pool = BlockPool(8, block_size=BLOCK_SIZE)
    table = make_table(clock, pool=pool)
    table.release(opened(table, [1, 2, 3, 4, 5]), owner="a")
    again = attached(table, table.open(None, owner="b", scope=SCOPE), [], owner="b")
    assert again.adopt([1, 2, 3, 4, 5]) == 4
    other = attached(table, table.open(None, owner="c", scope=b"other"), [], owner="c")
    assert other.adopt([1, 2, 3, 4, 5]) == 0


def test_a_preempted_state_is_lost_and_its_stream_begins_again(clock: Clock) -> None:
    table = make_table(clock)
    handle_id = opened(table, [1, 2, 3])
    attached(table, handle_id, [1, 2, 3]).preempt()
    assert attach(table, handle_id, [1, 2, 3]) == StateLost(0)
    assert attached(table, handle_id, []).adopt([1, 2, 3]) == 2


def test_a_state_agrees_with_the_digest_of_ids_that_it_has(table: HandleTable) -> None:
    handle_id = table.open(None, owner="a", scope=SCOPE)
    sequence = attach(table, handle_id, [])
    assert isinstance(sequence, Sequence)
    read(sequence, [5, 6, 7])
    for base, agrees in (([], True), ([5, 6], True), ([5, 9], False), ([5, 6, 7, 8], False)):
        assert agrees is table.agrees(handle_id, base_length=len(base), prefix_digest=digest(base))
    assert not table.agrees("another", base_length=0, prefix_digest=EMPTY_DIGEST)


def test_a_stream_whose_state_is_gone_is_under_way_all_the_same(
    table: HandleTable, clock: Clock
) -> None:
    handle_id = opened(table, [1, 2, 3])
    assert attach(table, handle_id, [3, 2, 1]) == StateLost(0)
    assert attached(table, handle_id, []).preempted
    late = opened(table, [4, 5], owner="b")
    clock.now += LEASE_S
    table.expire()
    clock.now += LEASE_S
    table.expire()
    assert attached(table, late, [], owner="b").preempted
