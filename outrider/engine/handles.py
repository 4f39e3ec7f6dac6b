"""The KV states of one worker: who holds which, and for how long.

A state is *pinned* while a stream works on it, and *cached* when its stream broke or fell silent.
A cached state holds no blocks: it remembers those it had, and finds them again unless they were
wanted elsewhere meanwhile. All times are seconds of the injected clock.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from typing import Any

from outrider.engine.kv_state import HandleStatus, KvState, StateLost
from outrider.engine.paged_sequence import Sequence
from outrider.errors import Exhausted, InvalidRequest
from outrider.prefix import common_length

__all__ = ["HandleStatus", "HandleTable", "StateLost", "new_handle_id"]

LEASE_S = 30.0
RETRY_AFTER_S = 1.0


def new_handle_id() -> str:
    """32 hexadecimal digits that nobody can guess."""
    return secrets.token_hex(16)


class HandleTable:
    """All KV states of one worker. Touched on the model thread only.

    First come, first served: callers have no shares. They are coordinators of one operator, mostly
    under one name, and it is they who know whose turn it is among their clients.
    """

    def __init__(
        self,
        new_sequence: Callable[[bytes], Sequence],
        *,
        max_handles: int,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`new_sequence` makes empty state of a cache scope. `max_handles`: pinned and cached.

        `lease_s`: how long a silent stream's state stays pinned, and how long a state is kept
        as cache.
        """
        self._new_sequence = new_sequence
        self._max_handles = max_handles
        self._lease_s = lease_s
        self._clock = clock
        self._states: dict[str, KvState] = {}
        self._oldest = -math.inf
        self.run_limits: dict[str, int] = {}
        """How long a sequence may become, for each owner that decodes alone at the moment."""
        self.orders: dict[str, Any] = {}
        """What the work under way for each owner was told last, if it takes orders."""
        self.notes: Any = None
        """What works leave for later ones: nothing that could not be made again."""

    def open(
        self,
        handle_id: str | None,
        *,
        owner: str,
        scope: bytes,
        caller: str = "",
        new_id: str | None = None,
    ) -> str:
        """Pins state for a stream and returns its handle id.

        A known `handle_id` of the same scope and caller names existing state, which the stream
        that had it loses; anything else gives new, empty state, named `new_id` if that is given: a
        handle is a hint. Raises Exhausted.
        """
        now = self.expire()
        state = self._states.get(handle_id) if handle_id is not None else None
        if handle_id and state is not None and state.belongs_to(scope=scope, caller=caller):
            state.sequence = state.sequence.hand_over()
            state.working = False
            self._pin(state, owner=owner, now=now)
            return handle_id
        self._make_room(None)
        new_id = new_id if new_id is not None else new_handle_id()
        self._states[new_id] = KvState(self._new_sequence(scope), owner, since=now, caller=caller)
        return new_id

    @contextmanager
    def working_on(
        self,
        handle_id: str,
        *,
        owner: str,
        base_length: int,
        prefix_digest: int,
        following: SequenceOf[int] = (),
    ) -> Iterator[Sequence | StateLost]:
        """As `attach`, for the time of one round: a stream that is worked for is not silent."""
        sequence = self.attach(
            handle_id,
            owner=owner,
            base_length=base_length,
            prefix_digest=prefix_digest,
            following=following,
        )
        state = self._states.get(handle_id)
        if state is None or state.sequence is not sequence:
            yield sequence
            return
        state.working = True
        try:
            yield sequence
        finally:
            if state.sequence is sequence:
                state.working, state.since = False, self._clock()

    def attach(
        self,
        handle_id: str,
        *,
        owner: str,
        base_length: int,
        prefix_digest: int,
        following: SequenceOf[int] = (),
    ) -> Sequence | StateLost:
        """The state cut back to its first `base_length` ids, if those have that digest.

        What it has of the ids `following` them is kept too.
        A state that is too short says how much it has, which the next attempt checks by its
        digest; one with other ids is cleared. Raises Exhausted, and InvalidRequest for a digest
        of no ids that is not one.
        """
        now = self.expire()
        state = self._states.get(handle_id)
        if state is None or state.owner != owner:
            return StateLost(0)
        self._pin(state, owner=owner, now=now)
        prefix = state.sequence.prefix
        if len(prefix) < base_length:
            return StateLost(len(prefix))
        if prefix.digest(base_length) != prefix_digest:
            if base_length == 0:
                raise InvalidRequest("round.prefix_digest", "the digest of the first ids")
            state.sequence.clear()
            state.sequence.preempted = True
            return StateLost(0)
        kept = prefix.token_ids[base_length : base_length + len(following)]
        state.sequence.rollback(base_length + common_length(kept, following))
        state.sequence.recalled = False
        return state.sequence

    def recall(self, handle_id: str, *, owner: str) -> None:
        """Asks the work under way on that owner's state, if there is one, to end."""
        state = self._states.get(handle_id)
        if state is not None and state.owner == owner and state.working:
            state.sequence.recalled = True

    def agrees(self, handle_id: str, *, base_length: int, prefix_digest: int) -> bool:
        """Whether the state's first `base_length` ids are there and have that digest."""
        state = self._states.get(handle_id)
        if state is None or state.length < base_length:
            return False
        return state.sequence.prefix.digest(base_length) == prefix_digest

    def release(self, handle_id: str, *, owner: str) -> None:
        """Gives back the state of a stream that ended in order. Another owner's stays."""
        state = self._states.get(handle_id)
        if state is not None and state.owner == owner:
            self._forget(handle_id)

    def lease(self, handle_id: str, *, owner: str) -> None:
        """Keeps the state of a stream that broke, for a while and while there is room."""
        now = self.expire()
        state = self._states.get(handle_id)
        if state is None or state.owner != owner:
            return
        if state.length == 0:
            self._forget(handle_id)
            return
        state.sequence = state.sequence.hand_over()
        state.owner, state.pinned, state.working, state.since = None, False, False, now
        state.sequence.park()

    def knows(self, handle_id: str) -> bool:
        """There is a state of that name."""
        return handle_id in self._states

    def pinned(self, handle_id: str) -> bool:
        """A stream works on that state."""
        state = self._states.get(handle_id)
        return state is not None and state.pinned

    def length(self, handle_id: str) -> int:
        """How many ids that state has; 0 where there is none."""
        state = self._states.get(handle_id)
        return 0 if state is None else state.length

    def status(self) -> HandleStatus:
        """Counts at this moment."""
        self.expire()
        states = self._states.values()
        return HandleStatus(
            in_use=sum(state.pinned for state in states),
            leased=sum(state.cached for state in states),
            kv_tokens=sum(state.length for state in states),
        )

    def _pin(self, state: KvState, *, owner: str, now: float) -> None:
        if not state.pinned and not state.cached:
            self._make_room(state)
        state.owner, state.pinned, state.dropped, state.since = owner, True, False, now
        state.sequence.unpark()

    def expire(self) -> float:
        """Unpins silent states and drops cached ones whose lease is over; the time now."""
        now = self._clock()
        if now - self._oldest < self._lease_s:
            return now
        for handle_id, state in list(self._states.items()):
            silent = state.pinned and not state.working
            if silent and now - state.since >= self._lease_s:
                state.pinned, state.since = False, state.since + self._lease_s
                state.sequence.park()
            if state.cached and now - state.since >= self._lease_s:
                self._drop(handle_id)
        # All other signs of life come later than now, so nothing ends before the oldest of these.
        ending = (each for each in self._states.values() if not (each.working or each.dropped))
        self._oldest = min((each.since for each in ending), default=now)
        return now

    def _make_room(self, besides: KvState | None) -> None:
        while sum(state.pinned or state.cached for state in self._states.values()) >= (
            self._max_handles
        ):
            cached = [
                (state.since, handle_id)
                for handle_id, state in self._states.items()
                if state.cached and state is not besides
            ]
            if not cached:
                raise Exhausted("all KV handles are in use", retry_after_s=RETRY_AFTER_S)
            self._drop(min(cached)[1])

    def _drop(self, handle_id: str) -> None:
        state = self._states[handle_id]
        if state.owner is None:
            self._forget(handle_id)
        else:
            state.dropped = True
            state.sequence.clear()
            state.sequence.preempted = True

    def _forget(self, handle_id: str) -> None:
        sequence = self._states.pop(handle_id).sequence
        if not sequence.parked:
            sequence.seal(len(sequence.prefix))
        sequence.revoke()
