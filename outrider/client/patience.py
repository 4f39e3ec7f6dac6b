"""How long a client goes on trying, and how long it pauses before each attempt."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import grpc

from outrider.client.errors import ClientError, RequestError, UnreachableError
from outrider.errors import PoolUnavailable

DEFAULT_S = 30.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
LONGEST_JITTER = 0.25
"""Clients that lost the same server do not come back at the same moment."""


@dataclass(frozen=True, slots=True)
class Patience:
    """When to give up. An attempt that delivers anything starts the clock anew."""

    total_s: float = DEFAULT_S
    """Seconds without anything new."""
    reach_s: float = 0.0
    """Seconds to look for a server as long as none has ever answered; each is asked once anyway."""
    most_breaks: int = 64
    """A request that breaks every server it comes to must not go on for ever."""


def may_go_on(error: ClientError) -> bool:
    """Another attempt may succeed: the way there broke, or the server says when to come again."""
    if not isinstance(error, RequestError):
        return isinstance(error, UnreachableError)
    remote = error.remote
    match remote.code:
        case grpc.StatusCode.UNAVAILABLE:
            return remote.reason in ("", PoolUnavailable.reason)
        case grpc.StatusCode.CANCELLED | grpc.StatusCode.INTERNAL:
            # Without a word of ours: by a server that ended, or gRPC's own for a broken stream.
            return not remote.reason
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return remote.retry_after_s is not None
    return False


class Tries:
    """The attempts at one output, over servers that are asked in turn.

    Once all have failed in a row there is a pause: as long as the first of them to name a time has
    said, else twice the one before.
    """

    def __init__(self, patience: Patience, *, servers: int, timeout_s: float | None) -> None:
        """`servers`: how many there are. `timeout_s`: for everything together; None: no limit."""
        self._patience = patience
        self._servers = servers
        self._began = self._news_at = time.monotonic()
        self._timeout_s = timeout_s
        self._reached = False
        self._breaks = 0
        self._failed: list[ClientError] = []
        self._pause_s = FIRST_PAUSE_S
        self._refusal: RequestError | None = None

    def left_s(self) -> float | None:
        """Seconds left for the next attempt; None: no limit."""
        if self._timeout_s is None:
            return None
        return max(0.0, self._began + self._timeout_s - time.monotonic())

    def progressed(self) -> None:
        """Something new has come."""
        self._reached = True
        self._news_at = time.monotonic()
        self._failed.clear()
        self._pause_s = FIRST_PAUSE_S

    def pause_after(self, error: ClientError) -> float:
        """Seconds to wait before the next attempt. Raises ClientError when it is time to give up:
        what a server said last, if any did.
        """
        self._breaks += 1
        self._failed.append(error)
        if isinstance(error, RequestError):
            self._reached, self._refusal = True, error
        if not may_go_on(error) or self._breaks >= self._patience.most_breaks:
            raise error
        pause_s = self._pause() if len(self._failed) >= self._servers else 0.0
        allowed_s = self._patience.total_s if self._reached else self._patience.reach_s
        left_s = self.left_s()
        too_long = time.monotonic() + pause_s - self._news_at > allowed_s
        if (pause_s and too_long) or (left_s is not None and pause_s >= left_s):
            raise self._refusal or error
        return pause_s

    def _pause(self) -> float:
        told = [
            error.remote.retry_after_s
            for error in self._failed
            if isinstance(error, RequestError) and error.remote.retry_after_s is not None
        ]
        self._failed.clear()
        pause_s = min(told, default=self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s * (1.0 + random.uniform(0.0, LONGEST_JITTER))
