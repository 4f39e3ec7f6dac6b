"""One KV state of a worker, and what is said about states."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.engine.paged_sequence import Sequence


@dataclass(frozen=True, slots=True)
class StateLost:
    """The state does not go on from there; it still has the first `kept_length` ids."""

    kept_length: int


@dataclass(frozen=True, slots=True)
class HandleStatus:
    """Handles pinned by a stream, handles kept as cache, and the ids with KV state of both."""

    in_use: int
    leased: int
    kv_tokens: int


@dataclass(slots=True)
class KvState:
    """One KV state. `owner` None: its stream broke. `since`: the last sign of life.

    `caller`: who had it made; nobody else is given it.

    A state whose stream is open but silent keeps its owner, so that the stream may come back to
    it; `dropped`: nothing but the name and the owner is left. `working`: a round is being worked
    on, so the stream is not silent.
    """

    sequence: Sequence
    owner: str | None
    since: float
    caller: str = ""
    pinned: bool = True
    dropped: bool = False
    working: bool = False

    @property
    def scope(self) -> bytes:
        """Whose state it is."""
        return self.sequence.scope

    def belongs_to(self, *, scope: bytes, caller: str) -> bool:
        """Whether that caller may have it for that scope."""
        return self.scope == scope and self.caller == caller

    @property
    def length(self) -> int:
        """Ids with KV."""
        return len(self.sequence.prefix)

    @property
    def cached(self) -> bool:
        """It may be dropped when room is needed."""
        return not self.pinned and not self.dropped
