"""One stream to a target: rounds out, verdicts in, state replayed when lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from grpc import aio

from coordinator.calls import (
    CLOSED_CALL_ERRORS,
    Peer,
    awaited_calls,
    error_of,
    finish_call,
    send,
)
from outrider.errors import InternalFailure, PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.rpc.status import to_outrider_error
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc

VerifyCall: TypeAlias = "aio.StreamStreamCall[target_pb2.VerifyRequest, target_pb2.VerifyResponse]"

LONGEST_SILENCE_S = 3.5
"""A target that works says so each second: three times in vain, and half a second for the way."""

MAX_REPLAYS_PER_ROUND = 100
"""A bound for a target that never keeps state. On one that is short of room a generation may lose
its state to older ones many times before its turn comes."""


class TargetStream:
    """Verifies draft tokens after a growing prefix; one round at a time.

    The KV state on the target is a cache: when it is lost the prefix is sent again, and the
    caller only sees that the round took longer. A round without draft tokens may let the target
    run on alone: the rounds after it are then answered without being sent.
    """

    def __init__(
        self,
        peer: Peer,
        open_message: target_pb2.VerifyOpen,
        *,
        run_credit: int = 0,
        timeout_s: float | None = None,
        silence_s: float = LONGEST_SILENCE_S,
    ) -> None:
        """`peer` is a process that serves the weights the generation was planned for.

        `run_credit`: how many tokens the target may be ahead when it decodes alone, 0 for a round
        trip per token; others need its feature `decode_tokens`. `timeout_s`: how long the stream
        may last. `silence_s`: how long the target may say nothing while it is asked something.
        Opens the stream at once.
        """
        self._replica_id = peer.replica_id
        self._open: target_pb2.VerifyOpen | None = open_message
        self._run_credit = run_credit
        self._silence_s = silence_s
        stub = target_pb2_grpc.TargetServiceStub(peer.channel)
        self.call: VerifyCall = stub.Verify(timeout=timeout_s)
        self._kept_length = 0
        self._number = 0
        self._first_number = 0
        self._runs_until: int | None = None
        self._granted = 0
        self.replays = 0
        self.bytes = 0
        """Of all messages that went either way."""

    @property
    def running(self) -> bool:
        """The target is decoding alone, ahead of what it is asked."""
        return self._runs_until is not None

    def half_used(self, length: int) -> bool:
        """At that length of the prefix, half of what the run was granted is used, or all."""
        return self._runs_until is None or self._runs_until - length <= self._granted // 2

    async def verify(
        self,
        prefix: TokenPrefix,
        draft_tokens: Sequence[common_pb2.DraftToken] = (),
        *,
        want_bonus: bool = True,
        trace: common_pb2.TraceContext,
        further: int = 0,
    ) -> target_pb2.Verdict:
        """The verdict on `draft_tokens` after all of `prefix`.

        `want_bonus`: after full acceptance one more token is drawn; True without draft tokens.
        `further`: how many tokens after that the target may decode alone, for calls to come; 0 in
        a round with draft tokens. Raises PoolUnavailable when the target cannot be reached, says
        nothing or is another process by now, or the error it ended the stream with.
        """
        try:
            asking = bool(draft_tokens) or self._has_to_ask(prefix, further)
            lost = 0
            while lost <= MAX_REPLAYS_PER_ROUND:
                if asking:
                    message = self._round(prefix, draft_tokens, trace=trace, further=further)
                    message.want_bonus = want_bonus
                    await self._write(message)
                answer = await self._read()
                if answer.HasField("verdict"):
                    if self._take(answer, prefix):
                        return answer.verdict
                    asking = not self.running
                elif asking := answer.round_number == self._number:
                    self._kept_length = answer.state_lost.kept_length
                    self.replays += 1
                    lost += 1
        except aio.AioRpcError as error:
            raise to_outrider_error(error, pool="target") from error
        except CLOSED_CALL_ERRORS as error:
            if (ended := await error_of(self.call)) is not None:
                raise to_outrider_error(ended, pool="target") from error
            raise PoolUnavailable("the target closed the stream", retry_after_s=1.0) from error
        except TimeoutError as error:
            silence = f"the target said nothing for {self._silence_s:g} s"
            raise PoolUnavailable(silence, retry_after_s=1.0) from error
        raise InternalFailure(f"the target lost the state {MAX_REPLAYS_PER_ROUND} times in a row")

    async def close(self) -> None:
        """Half-closes, so that the target frees the state at once."""
        await finish_call(self.call)

    def abandon(self) -> None:
        """Breaks the stream off: nobody answers there any more."""
        self.call.cancel()

    async def _write(self, message: target_pb2.VerifyRound) -> None:
        async with asyncio.timeout(self._silence_s):
            with awaited_calls():
                if self._open is not None:
                    opening, self._open = self._open, None
                    await self._send(target_pb2.VerifyRequest(open=opening))
                await self._send(target_pb2.VerifyRequest(round=message))

    async def _send(self, request: target_pb2.VerifyRequest) -> None:
        await send(self.call, request)
        self.bytes += request.ByteSize()

    def _has_to_ask(self, prefix: TokenPrefix, further: int) -> bool:
        """No run is under way, or its credit is half used and more may be wanted."""
        if self._runs_until is None:
            return True
        return self.half_used(len(prefix)) and self._runs_until < len(prefix) + 1 + further

    def _round(
        self,
        prefix: TokenPrefix,
        draft_tokens: Sequence[common_pb2.DraftToken],
        *,
        trace: common_pb2.TraceContext,
        further: int,
    ) -> target_pb2.VerifyRound:
        """A round to send, with the limit that it gives the target's run."""
        decode_tokens = min(self._run_credit, further)
        self._number += 1
        if not (self.running and decode_tokens):
            self._first_number = self._number
        base_length = min(self._kept_length, len(prefix) - 1)
        if decode_tokens:
            self._granted = decode_tokens
        self._runs_until = len(prefix) + 1 + decode_tokens if decode_tokens else None
        return target_pb2.VerifyRound(
            number=self._number,
            base_length=base_length,
            prefix_digest=prefix.digest(base_length),
            committed_token_ids=prefix.token_ids[base_length:],
            draft_tokens=draft_tokens,
            decode_tokens=decode_tokens,
            trace=trace,
        )

    async def _read(self) -> target_pb2.VerifyResponse:
        """The next verdict or loss of state, of this round or an earlier one of its run."""
        while True:
            async with asyncio.timeout(self._silence_s):
                with awaited_calls():
                    answer = await self.call.read()
            if not isinstance(answer, target_pb2.VerifyResponse):
                raise PoolUnavailable("the target ended the stream", retry_after_s=1.0)
            self.bytes += answer.ByteSize()
            kind = answer.WhichOneof("answer")
            if answer.round_number < self._first_number:
                continue
            if kind in ("verdict", "state_lost"):
                return answer
            if kind != "progress" and answer.round_number == self._number:
                raise InternalFailure("the target gave up a round that nothing replaced")

    def _take(self, answer: target_pb2.VerifyResponse, prefix: TokenPrefix) -> bool:
        """Whether the verdict decides what follows `prefix`; remembers what it says of the state.

        In a run the position decides, whatever round brought the verdict: one that was to prolong
        the run, but came after its end, is answered from where it began, with repeats. Where a
        repeat was decided otherwise, as it may be when others share its forward, what comes after
        it does not follow `prefix`: the run is given up.
        """
        verdict, in_run = answer.verdict, self.running
        length, token_ids = verdict.handle.length, list(verdict.output_token_ids)
        if verdict.handle.replica_id != self._replica_id:
            raise PoolUnavailable("the target was restarted", retry_after_s=1.0)
        self._kept_length = length
        if in_run and length > len(prefix):
            raise InternalFailure("the target left out a token")
        if not in_run and length != len(prefix) + verdict.accepted:
            raise InternalFailure("the target decided what it was not asked")
        if not token_ids:
            raise InternalFailure("the target answered a round without a token")
        repeats = in_run and length < len(prefix)
        ended = answer.round_number == self._number and verdict.done
        if ended or (repeats and token_ids != prefix.token_ids[length : length + len(token_ids)]):
            self._runs_until = None
        return not repeats
