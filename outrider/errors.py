"""The errors that callers may see, each with its gRPC status.

OutriderError
├── InvalidRequest        INVALID_ARGUMENT    a field is wrong; names it and what is allowed
│   └── OutOfRange        OUT_OF_RANGE        too much for this model, fine for another
├── NotSupported          UNIMPLEMENTED       a known option that this version does not have
├── ModelNotFound         NOT_FOUND           no such model here
├── Exhausted             RESOURCE_EXHAUSTED  no room now; carries a delay to retry after
├── PoolUnavailable       UNAVAILABLE         no worker to serve this; carries a delay
├── NumericalFailure      INTERNAL            the model gave NaN or infinite logits
└── InternalFailure       INTERNAL            anything else; the cause is in the log only
"""

from __future__ import annotations

import grpc

DOMAIN = "outrider"


class OutriderError(Exception):
    """Base of all errors that may cross the wire.

    `message` is for people, `metadata` for programs (string to string, ErrorInfo.metadata).
    """

    status = grpc.StatusCode.INTERNAL
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


class InvalidRequest(OutriderError):
    """A field of the request is wrong. `field` is its path, `allowed` says what it may be."""

    status = grpc.StatusCode.INVALID_ARGUMENT
    reason = "INVALID_FIELD"

    def __init__(self, field: str, allowed: str, *, got: object = None) -> None:
        was = "" if got is None else f", got {str(got)[:80]}"
        super().__init__(f"{field}: must be {allowed}{was}", field=field, allowed=allowed)
        self.field = field
        self.allowed = allowed


class OutOfRange(InvalidRequest):
    """The value is beyond what the loaded model can do."""

    status = grpc.StatusCode.OUT_OF_RANGE
    reason = "BEYOND_MODEL"


class NotSupported(OutriderError):
    """A known option that this version does not have."""

    status = grpc.StatusCode.UNIMPLEMENTED
    reason = "NOT_SUPPORTED"


class ModelNotFound(OutriderError):
    """No such model here."""

    status = grpc.StatusCode.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


class Exhausted(OutriderError):
    """No room at the moment."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "NO_CAPACITY"


class PoolUnavailable(OutriderError):
    """No worker can serve this at the moment."""

    status = grpc.StatusCode.UNAVAILABLE
    reason = "POOL_UNAVAILABLE"


class NumericalFailure(OutriderError):
    """The model gave NaN or infinite logits for this generation."""

    status = grpc.StatusCode.INTERNAL
    reason = "NUMERICAL_FAILURE"


class InternalFailure(OutriderError):
    """Anything unexpected; its cause is logged, never sent."""

    reason = "INTERNAL"
