"""The KV states of one worker: who holds which, and what is dropped when room is needed.

A state is *pinned* while a stream works on it, and *cached* when its stream broke or fell silent.
Cached states are dropped oldest first, when room is needed or their lease ends. All times are
seconds of the injected clock.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from outrider.engine.kv_state import HandleStatus, KvState, StateLost
from outrider.engine.model import Sequence
from outrider.errors import Exhausted, InvalidRequest

__all__ = ["HandleStatus", "HandleTable", "StateLost"]

LEASE_S = 30.0
RETRY_AFTER_S = 1.0


class HandleTable:
    """All KV states of one worker. Touched on the model thread only."""

    def __init__(
        self,
        new_sequence: Callable[[], Sequence],
        *,
        max_handles: int,
        max_tokens: int,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_handles`: states, pinned and cached. `max_tokens`: ids with KV over all of them.

        `lease_s`: how long a silent stream's state stays pinned, and how long a state is kept
        as cache.
        """
        self._new_sequence = new_sequence
        self._max_handles = max_handles
        self._max_tokens = max_tokens
        self._lease_s = lease_s
        self._clock = clock
        self._states: dict[str, KvState] = {}

    def open(self, handle_id: str | None, *, owner: str, scope: bytes) -> str:
        """Pins state for a stream and returns its handle id, 32 hexadecimal digits.

        A known `handle_id` of the same scope names existing state, which the stream that had it
        loses; anything else gives new, empty state: a handle is a hint. Raises Exhausted.
        """
        now = self._expire()
        state = self._states.get(handle_id) if handle_id is not None else None
        if handle_id is not None and state is not None and state.scope == scope:
            self._pin(state, owner=owner, now=now)
            return handle_id
        self._make_room_for_state(None)
        new_id = secrets.token_hex(16)
        self._states[new_id] = KvState(self._new_sequence(), scope, owner, since=now)
        return new_id

    def attach(
        self,
        handle_id: str,
        *,
        owner: str,
        base_length: int,
        prefix_digest: int,
        growth: int = 0,
    ) -> Sequence | StateLost:
        """The state cut back to its first `base_length` ids, if those have that digest.

        `growth`: how many ids the caller is about to add. A state that is too short says how
        much it has, which the next attempt checks by its digest; one with other ids is cleared.
        Raises Exhausted, and InvalidRequest for a digest of no ids that is not one.
        """
        now = self._expire()
        state = self._states.get(handle_id)
        if state is None or state.owner != owner:
            return StateLost(0)
        self._pin(state, owner=owner, now=now)
        if state.sequence is None:
            state.sequence = self._new_sequence()
        prefix = state.sequence.prefix
        if len(prefix) < base_length:
            return StateLost(len(prefix))
        if prefix.digest(base_length) != prefix_digest:
            if base_length == 0:
                raise InvalidRequest("round.prefix_digest", "the digest of the first ids")
            # Not cut back: the stream that had this state may have work under way on it.
            state.sequence = self._new_sequence()
            return StateLost(0)
        self._make_room_for_tokens(base_length + growth - len(prefix), besides=state)
        state.sequence.rollback(base_length)
        state.seen_length = base_length
        return state.sequence

    def release(self, handle_id: str, *, owner: str) -> None:
        """Frees the state of a stream that ended in order. Another owner's stays."""
        state = self._states.get(handle_id)
        if state is not None and state.owner == owner:
            del self._states[handle_id]

    def lease(self, handle_id: str, *, owner: str) -> None:
        """Keeps the state of a stream that broke, for a while and while there is room."""
        now = self._expire()
        state = self._states.get(handle_id)
        if state is None or state.owner != owner:
            return
        if state.length == 0:
            del self._states[handle_id]
            return
        state.owner, state.pinned, state.since = None, False, now

    def status(self) -> HandleStatus:
        """Counts at this moment."""
        self._expire()
        states = self._states.values()
        return HandleStatus(
            in_use=sum(state.pinned for state in states),
            leased=sum(state.cached for state in states),
            kv_tokens=self._kv_tokens(),
            kv_bytes=sum(state.sequence.kv_bytes for state in states if state.sequence),
        )

    def _pin(self, state: KvState, *, owner: str, now: float) -> None:
        if not state.pinned and not state.cached:
            self._make_room_for_state(state)
        state.owner, state.pinned, state.since = owner, True, now
        state.seen_length = state.length

    def _expire(self) -> float:
        """Unpins silent states and drops cached ones whose lease is over; the time now."""
        now = self._clock()
        for handle_id, state in list(self._states.items()):
            if state.pinned and state.length != state.seen_length:
                # A forward took longer than a pin lasts: its end is a sign of life too.
                state.seen_length, state.since = state.length, now
            if state.pinned and now - state.since >= self._lease_s:
                state.pinned, state.since = False, state.since + self._lease_s
            if state.cached and now - state.since >= self._lease_s:
                self._drop(handle_id)
        return now

    def _make_room_for_state(self, besides: KvState | None) -> None:
        while self._held() >= self._max_handles:
            if not self._evict_oldest(besides):
                raise Exhausted("all KV handles are in use", retry_after_s=RETRY_AFTER_S)

    def _make_room_for_tokens(self, growth: int, *, besides: KvState) -> None:
        while self._kv_tokens() + growth > self._max_tokens:
            if not self._evict_oldest(besides):
                raise Exhausted("no room for more KV state", retry_after_s=RETRY_AFTER_S)

    def _held(self) -> int:
        return sum(state.pinned or state.cached for state in self._states.values())

    def _kv_tokens(self) -> int:
        return sum(state.length for state in self._states.values())

    def _evict_oldest(self, besides: KvState | None) -> bool:
        cached = [
            (state.since, handle_id)
            for handle_id, state in self._states.items()
            if state.cached and state is not besides
        ]
        if not cached:
            return False
        self._drop(min(cached)[1])
        return True

    def _drop(self, handle_id: str) -> None:
        state = self._states[handle_id]
        if state.owner is None:
            del self._states[handle_id]
        else:
            state.sequence = None
