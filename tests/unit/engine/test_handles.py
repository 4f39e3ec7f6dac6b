"""Handles: who may use a state, how long it is kept, and what gives way when room is needed."""

from __future__ import annotations

import pytest

from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Sequence
from outrider.errors import Exhausted, InvalidRequest
from outrider.prefix import TokenPrefix
from outrider.testing.scripted import BYTES_PER_TOKEN, ScriptedSequence

SCOPE = b"tenant"
LEASE_S = 30.0


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


def make_table(clock: Clock, *, max_handles: int = 4, max_tokens: int = 100) -> HandleTable:
    return HandleTable(
        ScriptedSequence,
        max_handles=max_handles,
        max_tokens=max_tokens,
        lease_s=LEASE_S,
        clock=clock,
    )


def digest(token_ids: list[int]) -> int:
    return TokenPrefix(token_ids).digest(len(token_ids))


def attach(
    table: HandleTable, handle_id: str, base: list[int], *, owner: str = "a", growth: int = 0
) -> Sequence | StateLost:
    return table.attach(
        handle_id, owner=owner, base_length=len(base), prefix_digest=digest(base), growth=growth
    )


def attached(
    table: HandleTable, handle_id: str, base: list[int], *, owner: str = "a", growth: int = 0
) -> Sequence:
    found = attach(table, handle_id, base, owner=owner, growth=growth)
    assert not isinstance(found, StateLost)
    return found


def opened(table: HandleTable, ids: list[int], *, owner: str = "a") -> str:
    """A new handle whose state has read `ids`."""
    handle_id = table.open(None, owner=owner, scope=SCOPE)
    attached(table, handle_id, [], owner=owner, growth=len(ids)).prefix.extend(ids)
    return handle_id


def test_ids_are_long_and_never_the_same(table: HandleTable) -> None:
    ids = {table.open(None, owner=str(number), scope=SCOPE) for number in range(4)}
    assert len(ids) == 4
    assert all(len(handle_id) == 32 and int(handle_id, 16) >= 0 for handle_id in ids)


def test_attach_cuts_back_to_the_base(table: HandleTable) -> None:
    handle_id = opened(table, [1, 2, 3, 4])
    assert list(attached(table, handle_id, [1, 2]).prefix.token_ids) == [1, 2]


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
    assert (status.in_use, status.leased, status.kv_tokens, status.kv_bytes) == (0, 0, 0, 0)
    assert table.open(handle_id, owner="a", scope=SCOPE) != handle_id


def test_a_lease_keeps_state_until_it_ends(table: HandleTable, clock: Clock) -> None:
    handle_id = opened(table, [1, 2])
    table.lease(handle_id, owner="a")
    clock.now += LEASE_S - 1
    status = table.status()
    assert (status.in_use, status.leased, status.kv_tokens) == (0, 1, 2)
    assert status.kv_bytes == 2 * BYTES_PER_TOKEN
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


def test_a_forward_longer_than_a_pin_is_a_sign_of_life(table: HandleTable, clock: Clock) -> None:
    handle_id = table.open(None, owner="a", scope=SCOPE)
    sequence = attached(table, handle_id, [], growth=3)
    clock.now += 3 * LEASE_S
    sequence.prefix.extend([1, 2, 3])
    assert table.status().in_use == 1
    assert len(attached(table, handle_id, [1, 2, 3]).prefix) == 3


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


def test_cached_tokens_give_way_to_growth_and_pinned_ones_do_not(clock: Clock) -> None:
    table = make_table(clock, max_tokens=10)
    cached = opened(table, [1] * 4, owner="a")
    table.lease(cached, owner="a")
    pinned = opened(table, [2] * 4, owner="b")
    assert len(attached(table, pinned, [2] * 4, owner="b", growth=2).prefix) == 4
    assert table.status().leased == 1
    attached(table, pinned, [2] * 4, owner="b", growth=6)
    assert table.status().leased == 0
    other = table.open(None, owner="c", scope=SCOPE)
    with pytest.raises(Exhausted):
        attach(table, other, [], owner="c", growth=7)
    assert len(attached(table, other, [], owner="c", growth=6).prefix) == 0


def test_a_rollback_makes_room_for_itself(clock: Clock) -> None:
    table = make_table(clock, max_tokens=10)
    handle_id = opened(table, [1] * 10)
    assert len(attached(table, handle_id, [1] * 3, growth=7).prefix) == 3
    with pytest.raises(Exhausted):
        attach(table, handle_id, [1] * 3, growth=8)
