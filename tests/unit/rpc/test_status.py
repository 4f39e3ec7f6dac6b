"""Errors to statuses and back, without a network."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from outrider.errors import (
    Exhausted,
    InternalFailure,
    InvalidRequest,
    ModelNotFound,
    NotAllowed,
    NotSupported,
    NumericalFailure,
    OutOfRange,
    OutriderError,
    PoolUnavailable,
    Status,
    Unauthenticated,
)
from outrider.rpc.status import (
    DETAILS_KEY,
    clipped,
    remote_error,
    status_code,
    status_details,
    to_outrider_error,
)

ERRORS = [
    InvalidRequest("sampling.top_p", "above 0, up to 1", got=0),
    OutOfRange("prompt", "1 to 8 ids", got=9),
    NotSupported("not here", field="x", allowed="y"),
    ModelNotFound("no such model"),
    Exhausted("full", retry_after_s=0.25),
    PoolUnavailable("loading", retry_after_s=1.0),
    NumericalFailure("NaN logits"),
    InternalFailure("unknown"),
]


def failed(code: grpc.StatusCode, text: str, details: bytes | None) -> aio.AioRpcError:
    """What a call raises that ended so."""
    trailers = aio.Metadata(*([(DETAILS_KEY, details)] if details is not None else []))
    return aio.AioRpcError(code, aio.Metadata(), trailers, text)


def sent(error: OutriderError) -> aio.AioRpcError:
    return failed(status_code(error), clipped(error.message), status_details(error))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_passes_through_a_worker(error: OutriderError) -> None:
    passed_on = to_outrider_error(sent(error), pool="target")
    assert passed_on.status == error.status
    assert passed_on.reason == error.reason
    assert passed_on.metadata == error.metadata
    assert passed_on.retry_after_s == error.retry_after_s
    assert passed_on.message == f"target: {error.message}"


@pytest.mark.parametrize("status", list(Status))
def test_every_status_is_a_code_of_grpc(status: Status) -> None:
    assert grpc.StatusCode[status].name == status


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"])
def test_a_lost_worker_is_an_unavailable_pool(code: str) -> None:
    error = failed(grpc.StatusCode[code], "failed to connect to ipv4:10.0.0.7:7421", None)
    passed_on = to_outrider_error(error, pool="target")
    assert isinstance(passed_on, PoolUnavailable)
    assert passed_on.retry_after_s
    assert "10.0.0.7" not in passed_on.message


def test_other_failures_are_internal_without_their_text() -> None:
    passed_on = to_outrider_error(failed(grpc.StatusCode.UNKNOWN, "secret", None), pool="draft")
    assert isinstance(passed_on, InternalFailure)
    assert "secret" not in passed_on.message
    assert "draft" in passed_on.message


@pytest.mark.parametrize("details", [b"\xff\xff\xff", b"", None])
def test_unreadable_details_leave_code_and_text(details: bytes | None) -> None:
    remote = remote_error(failed(grpc.StatusCode.INTERNAL, "text", details))
    assert (remote.code, remote.message, remote.reason) == (
        grpc.StatusCode.INTERNAL,
        "text",
        "",
    )


def test_details_of_another_domain_are_not_ours() -> None:
    status = status_pb2.Status(code=14, message="text")
    status.details.add().Pack(error_details_pb2.ErrorInfo(domain="proxy", reason="THEIRS"))
    remote = remote_error(failed(grpc.StatusCode.UNAVAILABLE, "text", status.SerializeToString()))
    assert remote.reason == ""


@pytest.mark.parametrize("character", ["a", "é", "語", "\U0001f600"])
@pytest.mark.parametrize("limit", range(5, 20))
def test_clipped_text_ends_between_characters(character: str, limit: int) -> None:
    text = character * 50
    cut = clipped(text, limit)
    assert len(cut.encode()) <= limit
    assert cut.endswith("…")
    assert text.startswith(cut.removesuffix("…"))
    assert clipped(text, 1000) == text


def test_lone_surrogates_do_not_break_a_status() -> None:
    assert status_details(InternalFailure("\ud800"))


def test_trailers_stay_below_grpcs_soft_limit() -> None:
    wide = "\U0001f600" * 5000
    error = InternalFailure(wide, **{f"key{n}": wide for n in range(50)})
    percent_encoded = 3 * len(clipped(error.message).encode())
    base64_encoded = len(status_details(error)) * 4 / 3
    assert percent_encoded + base64_encoded < 8_000


@pytest.mark.parametrize("error", [Unauthenticated("no key"), NotAllowed("not you")])
def test_a_worker_that_lets_nobody_in_is_not_the_callers_fault(error: OutriderError) -> None:
    passed_on = to_outrider_error(sent(error), pool="target")
    assert passed_on.status is Status.UNAVAILABLE
    assert passed_on.retry_after_s
    assert error.message not in passed_on.message
