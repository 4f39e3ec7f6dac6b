"""Domain errors to rich gRPC statuses, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc import aio

from outrider.errors import DOMAIN, InternalFailure, OutriderError, PoolUnavailable, Status

DETAILS_KEY = "grpc-status-details-bin"

# gRPC replaces a status whose trailers pass 16 KB by RESOURCE_EXHAUSTED, and may do so from 8 KB
# on. The text is there twice: once in up to three bytes for each of its own, once in base64.
LONGEST_TEXT_BYTES = 1_024
LONGEST_VALUE_BYTES = 256
MOST_VALUES = 8

RETRY_AFTER_LOSS_S = 1.0

_REFUSED_AT_THE_DOOR = frozenset(
    {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
)

_LOSSES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""What a network gives. INTERNAL without a word of ours is gRPC's own, for a broken stream."""

MessageT = TypeVar("MessageT", bound=Message)
Trailers: TypeAlias = tuple[tuple[str, str | bytes], ...]


def clipped(text: str, limit: int = LONGEST_TEXT_BYTES) -> str:
    """The text within `limit` UTF-8 bytes, cut at a character border and ended by … if cut."""
    raw = text.encode(errors="replace")
    if len(raw) > limit:
        return raw[: limit - 3].decode(errors="ignore") + "…"
    return raw.decode()


def status_code(error: OutriderError) -> grpc.StatusCode:
    """The gRPC code of an error."""
    return grpc.StatusCode[error.status.name]


def status_details(error: OutriderError) -> bytes:
    """A serialised google.rpc.Status with ErrorInfo and, where there is a delay, RetryInfo."""
    values = list(error.metadata.items())[:MOST_VALUES]
    info = error_details_pb2.ErrorInfo(
        reason=clipped(error.reason, LONGEST_VALUE_BYTES),
        domain=DOMAIN,
        metadata={name: clipped(str(value), LONGEST_VALUE_BYTES) for name, value in values},
    )
    details = [_packed(info)]
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(_packed(retry))
    details.extend(map(_packed, error.attachments))
    status = status_pb2.Status(
        code=status_code(error).value[0], message=clipped(error.message), details=details
    )
    serialised: bytes = status.SerializeToString()
    return serialised


async def abort(context: aio.ServicerContext[object, object], error: OutriderError) -> NoReturn:
    """Ends a call with the status of an error."""
    await context.abort(
        status_code(error),
        clipped(error.message),
        trailing_metadata=((DETAILS_KEY, status_details(error)),),
    )


@dataclass(frozen=True, slots=True)
class RemoteError:
    """What a failed call says: its code, its text and its machine-readable details.

    `reason` is empty unless a service of this kind worded the error; a network never does.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None


class _FailedCall(Protocol):
    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def trailing_metadata(self) -> Trailers | None: ...


def remote_error(error: grpc.RpcError) -> RemoteError:
    """Reads the status of a failed call, sync or aio, with details where it has any."""
    call = cast("_FailedCall", error)
    code, message = call.code(), call.details() or ""
    raw = dict(call.trailing_metadata() or ()).get(DETAILS_KEY)
    try:
        status = status_pb2.Status.FromString(raw if isinstance(raw, bytes) else b"")
    except DecodeError:
        return RemoteError(code, message)
    info, retry_after_s = error_details_pb2.ErrorInfo(), None
    for detail in status.details:
        retry = error_details_pb2.RetryInfo()
        if detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToNanoseconds() / 1e9
        elif detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    if info.domain != DOMAIN:
        return RemoteError(code, message)
    return RemoteError(code, message, info.reason, dict(info.metadata), retry_after_s)


def attachment(error: grpc.RpcError, kind: type[MessageT]) -> MessageT | None:
    """The message of that kind in the details of a failed call's status, if there is one."""
    raw = dict(cast("_FailedCall", error).trailing_metadata() or ()).get(DETAILS_KEY)
    status = status_pb2.Status.FromString(raw if isinstance(raw, bytes) else b"")
    for detail in status.details:
        message = kind()
        if detail.Unpack(message):
            return message
    return None


def to_outrider_error(error: aio.AioRpcError, *, pool: str) -> OutriderError:
    """What a failed call to a worker of `pool` means to the coordinator's own caller.

    A refusal keeps its code, reason and metadata. A worker that is gone, did not answer in time,
    or does not let the coordinator in, is UNAVAILABLE: the caller's own right to call is another
    matter. Text that no service of this kind has worded stays out: it may tell of the inside.
    """
    remote = remote_error(error)
    if remote.code in _REFUSED_AT_THE_DOOR:
        return PoolUnavailable(
            f"the {pool} does not let this coordinator in ({remote.code.name})",
            retry_after_s=RETRY_AFTER_LOSS_S,
        )
    if remote.reason and remote.code.name in Status.__members__:
        passed_on = OutriderError(
            f"{pool}: {remote.message}", reason=remote.reason, retry_after_s=remote.retry_after_s
        )
        passed_on.metadata = dict(remote.metadata)
        passed_on.status = Status[remote.code.name]
        return passed_on
    if remote.code in _LOSSES:
        return PoolUnavailable(
            f"the {pool} is not reachable ({remote.code.name})", retry_after_s=RETRY_AFTER_LOSS_S
        )
    return InternalFailure(f"the {pool} failed ({remote.code.name})")


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
