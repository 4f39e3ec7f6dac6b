"""Domain errors to rich gRPC statuses, and back."""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from outrider.errors import DOMAIN, InternalFailure, OutriderError, PoolUnavailable, Status

DETAILS_KEY = "grpc-status-details-bin"
LONGEST_TEXT_BYTES = 2_048


def clipped(text: str, limit: int = LONGEST_TEXT_BYTES) -> str:
    """The text within `limit` UTF-8 bytes, cut at a character border.

    Trailers beyond 16 KB turn every status into RESOURCE_EXHAUSTED and hide the real one.
    """
    raw = text.encode(errors="replace")
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"


def status_code(error: OutriderError) -> grpc.StatusCode:
    """The gRPC code of an error."""
    return grpc.StatusCode[error.status.name]


def status_details(error: OutriderError) -> bytes:
    """A serialised google.rpc.Status with ErrorInfo and, where there is a delay, RetryInfo."""
    info = error_details_pb2.ErrorInfo(
        reason=error.reason,
        domain=DOMAIN,
        metadata={name: clipped(value, 512) for name, value in error.metadata.items()},
    )
    details = [_packed(info)]
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(_packed(retry))
    status = status_pb2.Status(
        code=status_code(error).value[0], message=clipped(error.message), details=details
    )
    return status.SerializeToString()


@dataclass(frozen=True, slots=True)
class RemoteError:
    """What a failed call says: its code, its text and its machine-readable details."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None


def remote_error(error: aio.AioRpcError | grpc.RpcError) -> RemoteError:
    """Reads the status of a failed call, sync or aio, with details where it has any."""
    code = error.code()  # type: ignore[union-attr]
    message = error.details() or ""  # type: ignore[union-attr]
    trailers = dict(error.trailing_metadata() or ())  # type: ignore[union-attr]
    raw = trailers.get(DETAILS_KEY)
    if not isinstance(raw, bytes):
        return RemoteError(code, message)
    status = status_pb2.Status.FromString(raw)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    retry_after_s = None
    for detail in status.details:
        if detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToNanoseconds() / 1e9
        elif detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    return RemoteError(code, message, info.reason, dict(info.metadata), retry_after_s)


def to_outrider_error(error: aio.AioRpcError, *, pool: str) -> OutriderError:
    """What a failed call to a worker of `pool` means to the coordinator's own caller.

    An unreachable worker is UNAVAILABLE; a refusal keeps its code and its details.
    """
    remote = remote_error(error)
    if remote.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return PoolUnavailable(f"the {pool} is not reachable: {remote.message}", retry_after_s=1.0)
    if remote.reason and remote.code.name in Status.__members__:
        passed_on = OutriderError(
            f"{pool}: {remote.message}",
            reason=remote.reason,
            retry_after_s=remote.retry_after_s,
            **remote.metadata,
        )
        passed_on.status = Status[remote.code.name]
        return passed_on
    return InternalFailure(f"the {pool} failed: {remote.code.name}")


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
