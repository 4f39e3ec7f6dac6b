"""One generation's dealings with its targets: one at a time, and another when that one is lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from coordinator.calls import CLOSED_CALL_ERRORS, out_of_time
from coordinator.pairing import PairingError, spoken_version
from coordinator.placement import Placement
from coordinator.replica import Replica
from coordinator.target_patience import FAILED, FULL, LOST, TargetPatience
from coordinator.target_stream import TargetStream
from outrider.errors import OutOfTime, OutriderError, PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2, target_pb2

DECODE_TOKENS = "decode_tokens"
"""The feature of a target that decodes several tokens alone, without a round trip for each."""
LOOK_AGAIN_S = 0.1
JITTER_S = 0.002
"""For each generation of a lost target: they do not all come to the next one at once."""
LONGEST_JITTER_S = 0.25
FULL_PAUSE_S = 0.5
LONGEST_OPENING_S = 10.0
LATE = "the caller's deadline has passed"

log = structlog.get_logger(__name__)


class TargetSession:
    """Verifies draft tokens after a growing prefix, on whatever target is there.

    A target that is lost, silent or about to end is left for another with the same weights, which
    is sent the whole prefix; the caller only sees that the round took longer.
    """

    def __init__(
        self,
        placement: Placement,
        open_message: Callable[[int], target_pb2.VerifyOpen],
        *,
        run_credit: int = 0,
        wait_s: float = 0.0,
        deadline: float | None = None,
        end_later: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`open_message` takes the version of the contract. `run_credit` as in TargetStream.

        `wait_s`: how long a generation that has begun waits for a target where there is none;
        `deadline`: until when it may last, in seconds of time.perf_counter. `end_later` takes the
        orderly end of a stream that was left.
        """
        self._placement = placement
        self._open_message = open_message
        self._run_credit = run_credit
        self._wait_s = wait_s
        self._deadline = deadline
        self._end_later = end_later
        self._replica: Replica | None = None
        self._stream: TargetStream | None = None
        self._patience = TargetPatience(wait_s)
        self._was_placed = False
        self._replays = 0
        self._bytes = 0
        self.moves = 0
        """Times that another stream took the place of one that was lost or left."""

    @property
    def running(self) -> bool:
        """The target is decoding alone, ahead of what it is asked."""
        return self._stream is not None and self._stream.running

    @property
    def replays(self) -> int:
        """Times that a target did not have the state and was sent the prefix again."""
        now = self._stream.replays if self._stream is not None else 0
        return self._replays + now + self.moves

    @property
    def bytes(self) -> int:
        """Of all messages to and from targets."""
        return self._bytes + (self._stream.bytes if self._stream is not None else 0)

    def half_used(self, length: int) -> bool:
        """At that length of the prefix, half of what the run was granted is used, or all."""
        return self._stream is None or self._stream.half_used(length)

    async def verify(
        self,
        prefix: TokenPrefix,
        draft_tokens: Sequence[common_pb2.DraftToken] = (),
        *,
        want_bonus: bool = True,
        trace: common_pb2.TraceContext,
        further: int = 0,
    ) -> target_pb2.Verdict:
        """As TargetStream.verify. Raises PoolUnavailable when no target could do it, OutOfTime when
        the caller's deadline came first."""
        while True:
            replica = await self._seat()
            try:
                stream = self._stream or await self._open(replica)
                verdict = await stream.verify(
                    prefix, draft_tokens, want_bonus=want_bonus, trace=trace, further=further
                )
            except OutriderError as error:
                if error.reason not in (LOST, FULL, FAILED):
                    raise
                await self._lose(replica, error)
            else:
                self._patience.served()
                replica.breaker.succeeded()
                return verdict

    async def close(self) -> None:
        """Half-closes, so that the target frees the state at once."""
        stream, self._stream = self._stream, None
        try:
            if stream is not None:
                self._replays += stream.replays
                self._bytes += stream.bytes
                await stream.close()
        finally:
            # Until now its channel was in use.
            self._leave()

    async def _seat(self) -> Replica:
        """The target to go on with. Raises PoolUnavailable where there is none in time."""
        replica = self._replica
        if replica is not None:
            if self._may_stay(replica):
                return replica
            if self._stream is not None:
                self._end_later(self._stream.close())
            self._leave()
            self.moves += 1
        self._replica = replica = await self._place()
        replica.enter()
        self._was_placed = True
        return replica

    async def _open(self, replica: Replica) -> TargetStream:
        """A stream there. Raises PoolUnavailable when so many are being opened that it takes too
        long."""
        try:
            async with asyncio.timeout(LONGEST_OPENING_S):
                await replica.openings.take()
        except TimeoutError as error:
            raise PoolUnavailable("the target takes up no streams", retry_after_s=1.0) from error
        try:
            stream = TargetStream(
                replica.peer,
                self._open_message(spoken_version(replica.model)),
                run_credit=self._run_credit if DECODE_TOKENS in replica.model.features else 0,
                timeout_s=self._left_s,
            )
        except (PairingError, *CLOSED_CALL_ERRORS) as error:
            # Its process or its channel is gone since it was chosen.
            replica.openings.give_back()
            raise PoolUnavailable("the target is gone", retry_after_s=1.0) from error
        replica.openings.opened(stream.call)
        self._stream = stream
        return stream

    def _may_stay(self, replica: Replica) -> bool:
        """That target is well, or there is no better one."""
        if self._placement.holds(replica):
            return True
        other = self._placement.best(besides={replica})
        return other is None or other is replica

    async def _place(self) -> Replica:
        """The target to go to, once there is one. Raises PoolUnavailable or OutOfTime."""
        until = time.perf_counter() + self._wait_s
        if self._deadline is not None:
            until = min(until, self._deadline)
        while (replica := self._placement.best(besides=self._patience.tried)) is None:
            # One that is at rest after a failure is worth waiting for; nobody at all is not.
            hopeless = not self._was_placed and not self._placement.any
            if out_of_time(self._deadline):
                raise OutOfTime(LATE)
            if hopeless or time.perf_counter() >= until:
                raise PoolUnavailable("no target serves these weights now", retry_after_s=1.0)
            await asyncio.sleep(LOOK_AGAIN_S * random.uniform(0.5, 1.5))
        return replica

    async def _lose(self, replica: Replica, error: OutriderError) -> None:
        """That target did not do it; returns when one is to be tried. Raises the error if none."""
        full = error.reason == FULL
        crowd = replica.generations
        if self._stream is not None:
            self._stream.abandon()
        self._leave()
        if out_of_time(self._deadline):
            raise OutOfTime(LATE) from error
        replica.failed(rest=not full)
        tried = self._patience.tried
        tried.add(replica)
        other = self._placement.best(besides=tried)
        alone = other is None or other in tried
        if not self._patience.lasts(error, alone=alone):
            raise error
        log.info("target left", address=replica.address, reason=error.message)
        self.moves += 1
        pause_s = FULL_PAUSE_S if full and alone else min(JITTER_S * crowd, LONGEST_JITTER_S)
        await asyncio.sleep(random.uniform(0.0, pause_s))

    @property
    def _left_s(self) -> float | None:
        """Seconds until the deadline, if there is one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.perf_counter())

    def _leave(self) -> None:
        """Has no target any more."""
        if self._stream is not None:
            self._replays += self._stream.replays
            self._bytes += self._stream.bytes
        if self._replica is not None:
            self._replica.leave()
        self._stream = self._replica = None
