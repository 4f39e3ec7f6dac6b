"""One generation's stream to its target: rounds out, verdicts in, state replayed when lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from grpc import aio

from coordinator.calls import CLOSED_CALL_ERRORS, Peer, finish_call
from outrider.errors import InternalFailure, PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.rpc.status import to_outrider_error
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc

VerifyCall: TypeAlias = "aio.StreamStreamCall[target_pb2.VerifyRequest, target_pb2.VerifyResponse]"

MAX_REPLAYS_PER_ROUND = 3


class TargetSession:
    """Verifies draft tokens after a growing prefix; one round at a time.

    The KV state on the target is a cache: when it is lost the prefix is sent again, and the
    caller only sees that the round took longer.
    """

    def __init__(self, peer: Peer, open_message: target_pb2.VerifyOpen) -> None:
        """`peer` is the process whose model the generation was planned for; no other will do."""
        self._stub = target_pb2_grpc.TargetServiceStub(peer.channel)
        self._replica_id = peer.replica_id
        self._open = open_message
        self._call: VerifyCall | None = None
        self._kept_length = 0
        self._number = 0
        self.replays = 0

    async def verify(
        self,
        prefix: TokenPrefix,
        draft_tokens: Sequence[common_pb2.DraftToken],
        *,
        trace: common_pb2.TraceContext,
    ) -> target_pb2.Verdict:
        """The verdict on `draft_tokens` after all of `prefix`, bonus wanted.

        Raises PoolUnavailable when the target cannot be reached or is another process by now, or
        the error it ended the stream with.
        """
        try:
            call = self._call or await self._open_stream()
            for _ in range(1 + MAX_REPLAYS_PER_ROUND):
                answer = await self._ask(call, prefix, draft_tokens, trace)
                if answer.WhichOneof("answer") == "verdict":
                    if answer.verdict.handle.replica_id != self._replica_id:
                        raise PoolUnavailable("the target was restarted", retry_after_s=1.0)
                    self._kept_length = answer.verdict.handle.length
                    return answer.verdict
                self._kept_length = answer.state_lost.kept_length
                self.replays += 1
        except aio.AioRpcError as error:
            raise to_outrider_error(error, pool="target") from error
        except CLOSED_CALL_ERRORS as error:
            raise PoolUnavailable("the target closed the stream", retry_after_s=1.0) from error
        raise InternalFailure(f"the target lost the state {MAX_REPLAYS_PER_ROUND} times in a row")

    async def close(self) -> None:
        """Half-closes, so that the target frees the state at once."""
        if self._call is not None:
            call, self._call = self._call, None
            await finish_call(call)

    async def _open_stream(self) -> VerifyCall:
        self._call = call = self._stub.Verify()
        await call.write(target_pb2.VerifyRequest(open=self._open))
        return call

    async def _ask(
        self,
        call: VerifyCall,
        prefix: TokenPrefix,
        draft_tokens: Sequence[common_pb2.DraftToken],
        trace: common_pb2.TraceContext,
    ) -> target_pb2.VerifyResponse:
        self._number += 1
        base_length = min(self._kept_length, len(prefix) - 1)
        message = target_pb2.VerifyRequest(
            round=target_pb2.VerifyRound(
                number=self._number,
                base_length=base_length,
                prefix_digest=prefix.digest(base_length),
                committed_token_ids=prefix.token_ids[base_length:],
                draft_tokens=draft_tokens,
                want_bonus=True,
                trace=trace,
            )
        )
        await call.write(message)
        while True:
            answer = await call.read()
            if not isinstance(answer, target_pb2.VerifyResponse):
                raise PoolUnavailable("the target ended the stream", retry_after_s=1.0)
            if answer.round_number != self._number or answer.HasField("progress"):
                continue
            if answer.WhichOneof("answer") in ("verdict", "state_lost"):
                return answer
            raise InternalFailure("the target gave up a round that nothing replaced")
