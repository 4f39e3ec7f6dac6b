"""One generation's stream at a worker, driven message by message: the contract without a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from google.protobuf.message import Message
from grpc import aio

from coordinator.calls import CLOSED_CALL_ERRORS, error_of, send
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc, target_pb2, target_pb2_grpc

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class WorkerStream(Generic[RequestT, ResponseT]):
    """An open call. Every method raises AioRpcError when the worker ends it by an error."""

    def __init__(self, call: aio.StreamStreamCall[RequestT, ResponseT]) -> None:
        self.call = call

    async def send(self, *messages: RequestT) -> None:
        """Sends without waiting for an answer."""
        for message in messages:
            try:
                await send(self.call, message)
            except CLOSED_CALL_ERRORS as error:
                raise await error_of(self.call) or error from error

    async def read(self) -> ResponseT:
        """The next answer, `progress` included. Raises EOFError at the stream's end."""
        response = await self.call.read()
        if response is aio.EOF:
            raise EOFError
        return cast("ResponseT", response)

    async def ask(self, message: RequestT) -> ResponseT:
        """Sends a Round; the next answer that is no `progress`."""
        await self.send(message)
        response = await self.read()
        while response.HasField("progress"):
            response = await self.read()
        return response

    async def half_close(self) -> None:
        """Ends the stream in order; returns when the worker has ended it too."""
        await self.call.done_writing()
        if await self.call.read() is not aio.EOF:
            raise AssertionError("an answer after the last round")


VerifyStream = WorkerStream[target_pb2.VerifyRequest, target_pb2.VerifyResponse]
DraftStream = WorkerStream[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


async def open_verify(channel: aio.Channel, **fields: Any) -> VerifyStream:
    """A Verify stream after its Open; `fields` are the Open's."""
    stream = VerifyStream(target_pb2_grpc.TargetServiceStub(channel).Verify())
    opening = target_pb2.VerifyOpen(**{"protocol_version": 1, **fields})
    await stream.send(target_pb2.VerifyRequest(open=opening))
    return stream


async def open_draft(channel: aio.Channel, **fields: Any) -> DraftStream:
    """A Draft stream after its Open; `fields` are the Open's."""
    stream = DraftStream(draft_pb2_grpc.DraftServiceStub(channel).Draft())
    opening = draft_pb2.DraftOpen(**{"protocol_version": 1, **fields})
    await stream.send(draft_pb2.DraftRequest(open=opening))
    return stream


def verify_round(
    number: int,
    token_ids: Sequence[int],
    *,
    base: int = 0,
    drafts: Sequence[common_pb2.DraftToken] = (),
    decode: int = 0,
) -> target_pb2.VerifyRequest:
    """A Round whose committed sequence is `token_ids`, the first `base` of them as state.

    `decode`: for how many further tokens the target may go on alone.
    """
    return target_pb2.VerifyRequest(
        round=target_pb2.VerifyRound(
            number=number,
            base_length=base,
            prefix_digest=TokenPrefix(token_ids).digest(base),
            committed_token_ids=token_ids[base:],
            draft_tokens=drafts,
            want_bonus=True,
            decode_tokens=decode,
        )
    )


def draft_round(
    number: int,
    token_ids: Sequence[int],
    *,
    base: int = 0,
    until: int = 0,
    together: int = 0,
    copies: int = 0,
    branches: int = 0,
    branch_length: int = 0,
) -> draft_pb2.DraftRequest:
    """A Round whose committed sequence is `token_ids`, the first `base` of them as state.

    `together`: the length up to which tokens come in one message, 0: `until`. `copies`: the length
    up to which they may be copied.
    """
    return draft_pb2.DraftRequest(
        round=draft_pb2.DraftRound(
            number=number,
            base_length=base,
            prefix_digest=TokenPrefix(token_ids).digest(base),
            committed_token_ids=token_ids[base:],
            draft_until_length=until,
            together_until_length=together,
            copy_until_length=copies,
            branches=branches,
            branch_length=branch_length,
        )
    )
