"""A run under way as its stream sees it: which rounds go on with it, and how its limit is moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.engine.handles import HandleTable
from outrider.v1 import target_pb2

ENDED = 0
LONGEST_RUN = 256
"""Tokens that a run goes on for unless it is prolonged: what a caller that does not read can make
a worker keep for it."""


def until_length(message: target_pb2.VerifyRound) -> int:
    """How many ids, prompt included, a round lets its run reach; 0 for a single round."""
    if not message.decode_tokens:
        return 0
    further = min(message.decode_tokens, LONGEST_RUN)
    return message.base_length + len(message.committed_token_ids) + 1 + further


class DecodingRun:
    """The ids of a run from its round's base on: the committed ones, then those answered."""

    def __init__(self, message: target_pb2.VerifyRound) -> None:
        self._base_length = message.base_length
        self._token_ids = list(message.committed_token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Adds ids that were answered."""
        self._token_ids += token_ids

    def agrees(self, message: target_pb2.VerifyRound) -> bool:
        """Whether that round only asks the run to go on, if the ids before its base agree too."""
        start = message.base_length - self._base_length
        committed = list(message.committed_token_ids)
        return (
            not message.draft_tokens
            and message.want_bonus
            and bool(committed)
            and 0 <= start <= len(self._token_ids)
            and committed == self._token_ids[start : start + len(committed)]
        )


@dataclass(frozen=True, slots=True)
class RaiseLimit:
    """Lets a stream's run go on up to a length, if it is still under way.

    The state must agree with the round's base. Its digests are at hand on the model thread only:
    anew, those of a long prompt would take longer than the event loop may.
    """

    handle_id: str
    owner: str
    base_length: int
    prefix_digest: int
    until_length: int

    def __call__(self, handles: HandleTable) -> bool:
        """Runs on the model thread; whether there is such a run."""
        limit = handles.run_limits.get(self.owner)
        if limit is None or not handles.agrees(
            self.handle_id, base_length=self.base_length, prefix_digest=self.prefix_digest
        ):
            return False
        handles.run_limits[self.owner] = max(limit, self.until_length)
        return True


@dataclass(frozen=True, slots=True)
class EndRun:
    """Ends a stream's run at its next token."""

    owner: str

    def __call__(self, handles: HandleTable) -> None:
        """Runs on the model thread."""
        if self.owner in handles.run_limits:
            handles.run_limits[self.owner] = ENDED
