"""A stream that takes a handle over does not spoil work under way for the stream before it."""

from __future__ import annotations

import pytest

from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Sequence
from outrider.errors import Exhausted
from outrider.prefix import EMPTY_DIGEST
from outrider.testing.scripted import ScriptedSequence

SCOPE = b""


def table_with_work() -> tuple[HandleTable, str, Sequence]:
    """A table, a handle that stream b has taken over, and the sequence stream a works on."""
    table = HandleTable(ScriptedSequence, max_handles=4, max_tokens=100)
    handle_id = table.open(None, owner="a", scope=SCOPE)
    sequence = table.attach(handle_id, owner="a", base_length=0, prefix_digest=EMPTY_DIGEST)
    assert not isinstance(sequence, StateLost)
    sequence.prefix.extend([1, 2, 3])
    assert table.open(handle_id, owner="b", scope=SCOPE) == handle_id
    return table, handle_id, sequence


def test_another_prefix_gives_new_state_and_leaves_the_old_as_it_is() -> None:
    table, handle_id, sequence = table_with_work()
    answer = table.attach(handle_id, owner="b", base_length=2, prefix_digest=EMPTY_DIGEST + 1)
    assert answer == StateLost(0)
    assert list(sequence.prefix.token_ids) == [1, 2, 3]
    fresh = table.attach(handle_id, owner="b", base_length=0, prefix_digest=EMPTY_DIGEST)
    assert fresh is not sequence


def test_no_room_leaves_the_state_as_it_is() -> None:
    table, handle_id, sequence = table_with_work()
    with pytest.raises(Exhausted):
        table.attach(handle_id, owner="b", base_length=0, prefix_digest=EMPTY_DIGEST, growth=101)
    assert list(sequence.prefix.token_ids) == [1, 2, 3]


def test_a_rollback_makes_the_room_that_it_needs() -> None:
    table, handle_id, sequence = table_with_work()
    same = table.attach(handle_id, owner="b", base_length=0, prefix_digest=EMPTY_DIGEST, growth=100)
    assert same is sequence
