"""The draft length that a generation goes by, and why it became this one."""

from __future__ import annotations

from coordinator.policy.changes import ChangeLog
from coordinator.policy.outlook import Outlook
from coordinator.policy.reasons import in_figures, reason_against, reason_for
from outrider.v1 import generation_pb2

MISSING, COPIES = "DRAFT_MISSING", "COPIES"


class Course:
    """Notes each change with the word and the figures for it."""

    def __init__(self, *, may_stop: bool) -> None:
        """`may_stop`: it may be turned off; else the request wants it on."""
        self._first = "START" if may_stop else "REQUEST"
        self._log = ChangeLog()
        self._noted: Outlook | None = None
        """What the last change rested on."""
        self.dropped = False
        """It was turned off since acceptance is no longer what it was."""

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """The last 32."""
        return self._log.changes

    def missing(self, *, offset: int) -> None:
        """There is no draft to ask."""
        self._log.note(offset=offset, draft_length=0, reason=MISSING)

    def only_copies(self, *, offset: int) -> None:
        """The draft draws no tokens."""
        self._log.note(offset=offset, draft_length=0, reason=COPIES)

    def goes_by(self, length: int, *, offset: int, view: Outlook | None) -> None:
        """The draft length from the output token `offset` on, by that view if there is one."""
        if length == self._log.draft_length:
            return
        word = self._word(length, view)
        reason = f"{word}: {in_figures(view)}" if view else word
        self._log.note(offset=offset, draft_length=length, reason=reason)
        self._noted = view

    def _word(self, length: int, view: Outlook | None) -> str:
        before = self._log.draft_length
        if before is None:
            return self._first
        if self._log.reason == MISSING and length:
            return "DRAFT_FOUND"
        if before == 0:
            return "PROBE"
        if view is None or self.dropped:
            return "ACCEPTANCE"
        if self._noted is None:
            return "START" if length else reason_against(view)
        return reason_for(self._noted, view, turned=length == 0)
