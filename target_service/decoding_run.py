"""A run under way as its stream sees it: which rounds go on with it, and how its limit is moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.engine.handles import HandleTable
from outrider.prefix import extend_digest
from outrider.v1 import target_pb2

ENDED = 0


def until_length(message: target_pb2.VerifyRound) -> int:
    """How many ids, prompt included, a round lets its run reach; 0 for a single round."""
    if not message.decode_tokens:
        return 0
    return message.base_length + len(message.committed_token_ids) + 1 + message.decode_tokens


class DecodingRun:
    """The ids of a run from its round's base on: the committed ones, then those answered."""

    def __init__(self, message: target_pb2.VerifyRound) -> None:
        self._base_length = message.base_length
        self._token_ids: list[int] = []
        self._digests = [message.prefix_digest]
        self.extend(message.committed_token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Adds ids that were answered."""
        for token_id in token_ids:
            self._token_ids.append(token_id)
            self._digests.append(extend_digest(self._digests[-1], token_id))

    def agrees(self, message: target_pb2.VerifyRound) -> bool:
        """Whether that round only asks the run to go on."""
        start = message.base_length - self._base_length
        committed = list(message.committed_token_ids)
        return (
            not message.draft_tokens
            and message.want_bonus
            and 0 <= start < len(self._digests)
            and message.prefix_digest == self._digests[start]
            and committed == self._token_ids[start : start + len(committed)]
        )


@dataclass(frozen=True, slots=True)
class RaiseLimit:
    """Lets a stream's run go on up to a length, if it is still under way."""

    owner: str
    until_length: int

    def __call__(self, handles: HandleTable) -> bool:
        """Runs on the model thread; whether there is a run."""
        limit = handles.run_limits.get(self.owner)
        if limit is None:
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
