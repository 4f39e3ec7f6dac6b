"""The errors that callers may see, each with the name of its gRPC status.

OutriderError
├── InvalidRequest        INVALID_ARGUMENT    a field is wrong; names it and what is allowed
│   └── OutOfRange        OUT_OF_RANGE        too much for this model, fine for another
├── NotSupported          UNIMPLEMENTED       a known option that this version does not have
├── ModelNotFound         NOT_FOUND           no such model here
├── Unauthenticated       UNAUTHENTICATED     the caller did not show who it is
├── NotAllowed            PERMISSION_DENIED   the caller is known and may not call
├── Exhausted             RESOURCE_EXHAUSTED  no room now; carries a delay to retry after
├── OutOfTime             DEADLINE_EXCEEDED   the caller's own deadline has passed
├── PoolUnavailable       UNAVAILABLE         no worker to serve this; carries a delay
├── NumericalFailure      INTERNAL            the model gave NaN or infinite logits
└── InternalFailure       INTERNAL            anything else; the cause is in the log only
"""

# Each error is named for what happened, so without the suffix.
# ruff: noqa: N818
from __future__ import annotations

from enum import StrEnum
from typing import Any

DOMAIN = "outrider"


class Status(StrEnum):
    """A canonical status by name, so that code without a network can raise these errors.

    `grpc.StatusCode[status]` is the code itself; `outrider.rpc` maps it.
    """

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    NOT_FOUND = "NOT_FOUND"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class OutriderError(Exception):
    """Base of all errors that may cross the wire.

    `message` is for people, `metadata` for programs (string to string, ErrorInfo.metadata).
    """

    status = Status.INTERNAL
    reason = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        retry_after_s: float | None = None,
        **metadata: str,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).reason
        self.retry_after_s = retry_after_s
        self.metadata = metadata
        self.attachments: tuple[Any, ...] = ()
        """Further details for programs: messages of the contract, a few kilobytes in all."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its fields: a subclass may be made from other arguments than its message."""
        return _with_fields, (type(self), self.args, self.__dict__)


class InvalidRequest(OutriderError):
    """A field of the request is wrong. `field` is its path, `allowed` says what it may be."""

    status = Status.INVALID_ARGUMENT
    reason = "INVALID_FIELD"

    def __init__(self, field: str, allowed: str, *, got: object = None) -> None:
        was = "" if got is None else f", got {str(got)[:80]}"
        super().__init__(f"{field}: must be {allowed}{was}", field=field, allowed=allowed)
        self.field = field
        self.allowed = allowed


class OutOfRange(InvalidRequest):
    """The value is beyond what the loaded model can do."""

    status = Status.OUT_OF_RANGE
    reason = "BEYOND_MODEL"


class NotSupported(OutriderError):
    """A known option that this version does not have."""

    status = Status.UNIMPLEMENTED
    reason = "NOT_SUPPORTED"


class ModelNotFound(OutriderError):
    """No such model here."""

    status = Status.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


class Unauthenticated(OutriderError):
    """The caller did not show who it is."""

    status = Status.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class NotAllowed(OutriderError):
    """The caller is known, and is not one of those who may call."""

    status = Status.PERMISSION_DENIED
    reason = "NOT_ALLOWED"


class Exhausted(OutriderError):
    """No room at the moment."""

    status = Status.RESOURCE_EXHAUSTED
    reason = "NO_CAPACITY"


class OutOfTime(OutriderError):
    """The caller's own deadline has passed, or is about to."""

    status = Status.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class PoolUnavailable(OutriderError):
    """No worker can serve this at the moment."""

    status = Status.UNAVAILABLE
    reason = "POOL_UNAVAILABLE"


class NumericalFailure(OutriderError):
    """The model gave NaN or infinite logits for this generation."""

    status = Status.INTERNAL
    reason = "NUMERICAL_FAILURE"


class InternalFailure(OutriderError):
    """Anything unexpected; its cause is logged, never sent."""

    reason = "INTERNAL"


def _with_fields(
    kind: type[OutriderError], args: tuple[Any, ...], fields: dict[str, Any]
) -> OutriderError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error
