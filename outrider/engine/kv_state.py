"""One KV state of a worker, and what is said about states."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.engine.model import Sequence


@dataclass(frozen=True, slots=True)
class StateLost:
    """The state does not go on from there; it still has the first `kept_length` ids."""

    kept_length: int


@dataclass(frozen=True, slots=True)
class HandleStatus:
    """Handles pinned by a stream, handles kept as cache, and the KV state of both."""

    in_use: int
    leased: int
    kv_tokens: int
    kv_bytes: int


@dataclass(slots=True)
class KvState:
    """One KV state. `owner` None: its stream broke. `since`: the last sign of life.

    A state whose stream is open but silent keeps its owner, so that the stream may come back to
    it; `sequence` None: nothing but the name and the owner is left.
    """

    sequence: Sequence | None
    scope: bytes
    owner: str | None
    since: float
    pinned: bool = True
    seen_length: int = 0

    @property
    def length(self) -> int:
        """Ids with KV."""
        return 0 if self.sequence is None else len(self.sequence.prefix)

    @property
    def cached(self) -> bool:
        """It may be dropped when room is needed."""
        return not self.pinned and self.sequence is not None
