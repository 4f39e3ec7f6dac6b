"""What the policy changed in one generation, and why."""

from __future__ import annotations

from collections import deque

from outrider.v1 import generation_pb2

KEPT = 32
"""The last so many changes are kept."""


class ChangeLog:
    """Notes each change of the draft length."""

    def __init__(self) -> None:
        self._changes: deque[generation_pb2.DraftLengthChange] = deque(maxlen=KEPT)
        self.draft_length: int | None = None
        """What the last change was to."""

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """Oldest first."""
        return list(self._changes)

    @property
    def reason(self) -> str:
        """Of the last change; empty before the first."""
        return self._changes[-1].reason if self._changes else ""

    def note(self, *, offset: int, draft_length: int, reason: str) -> None:
        """`draft_length` holds from the output token with index `offset` on."""
        if draft_length == self.draft_length:
            return
        self.draft_length = draft_length
        self._changes.append(
            generation_pb2.DraftLengthChange(
                offset=offset, draft_length=draft_length, reason=reason
            )
        )
