"""Random histories of the handle table against what a caller may rely on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.engine.handles import HandleStatus, HandleTable, StateLost
from outrider.engine.paged_sequence import Sequence
from outrider.errors import Exhausted
from outrider.prefix import TokenPrefix

MAX_HANDLES = 3
BLOCKS = 20
LEASE_S = 10.0
SCOPES = (b"one", b"two")
CALLERS = ("a coordinator", "another")


@dataclass
class Stream:
    """A caller's view: its own ids, and when it was last heard."""

    handle_id: str
    owner: str
    scope: bytes
    caller: str
    heard: float
    token_ids: list[int] = field(default_factory=list)


class Histories(RuleBasedStateMachine):
    """Streams open, read, roll back, end, break and fall silent in any order.

    Promised: a state that is handed out has exactly the ids asked for; a stream heard within the
    lease keeps all it has read; limits hold; nothing crosses a scope or goes to another caller;
    once all streams have ended nothing is pinned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        # Its own: whatever runs beside this draws from the module's.
        self.random = random.Random(0)
        self.pool = BlockPool(BLOCKS, block_size=2)
        self.table = HandleTable(
            lambda scope: Sequence(self.pool, scope=scope),
            max_handles=MAX_HANDLES,
            lease_s=LEASE_S,
            clock=lambda: self.now,
        )
        self.streams: list[Stream] = []
        self.left: list[Stream] = []
        self.scopes: dict[str, bytes] = {}
        self.owners = 0

    def pick(self, number: int) -> Stream:
        return self.streams[number % len(self.streams)]

    def pinned(self) -> list[Stream]:
        return [stream for stream in self.streams if self.now - stream.heard < LEASE_S]

    @rule(
        scope=st.sampled_from(SCOPES),
        caller=st.sampled_from(CALLERS),
        back_to=st.none() | st.integers(0, 9),
    )
    def open(self, scope: bytes, caller: str, back_to: int | None) -> None:
        known = [*self.left, *self.streams]
        wanted = known[back_to % len(known)] if known and back_to is not None else None
        self.owners += 1
        owner = f"owner {self.owners}"
        try:
            handle_id = self.table.open(
                wanted.handle_id if wanted else None, owner=owner, scope=scope, caller=caller
            )
        except Exhausted:
            assert len(self.pinned()) >= MAX_HANDLES
            return
        if wanted is not None and handle_id == wanted.handle_id:
            assert (wanted.scope, wanted.caller) == (scope, caller)
            self.streams = [stream for stream in self.streams if stream.handle_id != handle_id]
            self.left = [stream for stream in self.left if stream.handle_id != handle_id]
            # What the old stream had read may be there, or may have gone.
            self.streams.append(Stream(handle_id, owner, scope, caller, self.now, wanted.token_ids))
            self.attach(len(self.streams) - 1, 0, 0, heard_before=False)
        else:
            assert handle_id not in self.scopes
            self.scopes[handle_id] = scope
            self.streams.append(Stream(handle_id, owner, scope, caller, self.now))

    @precondition(lambda self: self.streams)
    @rule(number=st.integers(0, 9), drop=st.integers(0, 6), growth=st.integers(0, 25))
    def read(self, number: int, drop: int, growth: int) -> None:
        stream = self.pick(number)
        self.attach(number, drop, growth, heard_before=self.now - stream.heard < LEASE_S)

    def attach(self, number: int, drop: int, growth: int, *, heard_before: bool) -> None:
        stream = self.pick(number)
        base = stream.token_ids[: max(0, len(stream.token_ids) - drop)]
        pinned = self.pinned()
        for _ in range(3):
            try:
                found = self.table.attach(
                    stream.handle_id,
                    owner=stream.owner,
                    base_length=len(base),
                    prefix_digest=TokenPrefix(base).digest(len(base)),
                )
            except Exhausted:
                others = [each for each in pinned if each is not stream]
                assert len(others) >= MAX_HANDLES
                self.close(stream)
                return
            if not isinstance(found, StateLost):
                break
            assert not heard_before, "a stream that was heard keeps what it read"
            assert found.kept_length < max(1, len(base))
            base = base[: found.kept_length]
        assert not isinstance(found, StateLost)
        assert list(found.prefix.token_ids) == base
        new = [self.random.randrange(100) for _ in range(growth)]
        try:
            found.reserve(growth)
        except OutOfBlocks:
            assert found.blocks_needed(growth) > self.pool.available
            new = []
        found.append(new)
        stream.token_ids = [*base, *new]
        stream.heard = self.now
        self.table.status()

    @precondition(lambda self: self.streams)
    @rule(number=st.integers(0, 9))
    def release(self, number: int) -> None:
        stream = self.pick(number)
        self.close(stream)
        if len(self.pinned()) < MAX_HANDLES:
            other = self.table.open(
                stream.handle_id, owner="probe", scope=stream.scope, caller=stream.caller
            )
            assert other != stream.handle_id
            self.table.release(other, owner="probe")

    def close(self, stream: Stream) -> None:
        self.table.release(stream.handle_id, owner=stream.owner)
        self.streams.remove(stream)

    @precondition(lambda self: self.streams)
    @rule(number=st.integers(0, 9))
    def breaks(self, number: int) -> None:
        stream = self.pick(number)
        self.table.lease(stream.handle_id, owner=stream.owner)
        self.streams.remove(stream)
        self.left.append(stream)

    @precondition(lambda self: any(stream.token_ids for stream in self.streams))
    @rule(number=st.integers(0, 9), drop=st.integers(0, 6), other_id=st.integers(100, 200))
    def another_prefix(self, number: int, drop: int, other_id: int) -> None:
        """A digest of other ids never yields state, and the state is as if it had been lost."""
        read = [stream for stream in self.streams if stream.token_ids]
        stream = read[number % len(read)]
        others = stream.token_ids[: max(1, len(stream.token_ids) - drop)]
        others[-1] = other_id
        try:
            answer = self.table.attach(
                stream.handle_id,
                owner=stream.owner,
                base_length=len(others),
                prefix_digest=TokenPrefix(others).digest(len(others)),
            )
        except Exhausted:
            self.close(stream)
            return
        assert isinstance(answer, StateLost)
        assert answer.kept_length < len(others)
        if self.now - stream.heard < LEASE_S:
            assert answer == StateLost(0)
        stream.token_ids, stream.heard = [], self.now

    @rule(seconds=st.sampled_from([0.5, 4.0, 9.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.left)
    @rule(number=st.integers(0, 9))
    def strangers_get_nothing(self, number: int) -> None:
        stream = self.left[number % len(self.left)]
        answer = self.table.attach(
            stream.handle_id,
            owner=stream.owner,
            base_length=0,
            prefix_digest=TokenPrefix().digest(0),
        )
        assert answer == StateLost(0)

    @invariant()
    def counts_are_right(self) -> None:
        status = self.table.status()
        assert status.in_use == len(self.pinned())
        assert status.in_use + status.leased <= MAX_HANDLES
        assert self.pool.in_use <= BLOCKS
        if not self.pinned():
            assert self.pool.in_use == 0

    def teardown(self) -> None:
        for stream in list(self.streams):
            self.close(stream)
        assert self.table.status().in_use == 0
        assert self.pool.in_use == 0
        self.now += 2 * LEASE_S
        assert self.table.status() == HandleStatus(in_use=0, leased=0, kv_tokens=0)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
