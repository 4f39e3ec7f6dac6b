"""When a client tries again, how long it waits, and when it gives up."""

from __future__ import annotations

import grpc
import pytest

from outrider.client import ClientError, RequestError, UnreachableError
from outrider.client.patience import LONGEST_JITTER, Patience, Tries, may_go_on
from outrider.rpc.status import RemoteError

LOST = RequestError(RemoteError(grpc.StatusCode.UNAVAILABLE, "the connection was lost"))
NOBODY = UnreachableError("127.0.0.1:1", "refused")


def busy(retry_after_s: float | None) -> RequestError:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    return RequestError(RemoteError(code, "full", "NO_CAPACITY", retry_after_s=retry_after_s))


@pytest.mark.parametrize(
    ("code", "reason", "retry_after_s", "again"),
    [
        ("UNAVAILABLE", "", None, True),
        ("UNAVAILABLE", "POOL_UNAVAILABLE", 1.0, True),
        ("UNAVAILABLE", "PROTOCOL_VERSION", None, False),
        ("CANCELLED", "", None, True),
        ("CANCELLED", "GIVEN_UP", None, False),
        ("RESOURCE_EXHAUSTED", "NO_CAPACITY", 2.0, True),
        ("RESOURCE_EXHAUSTED", "", None, False),
        ("INVALID_ARGUMENT", "INVALID_FIELD", None, False),
        ("NOT_FOUND", "MODEL_NOT_FOUND", None, False),
        ("OUT_OF_RANGE", "BEYOND_MODEL", None, False),
        ("UNAUTHENTICATED", "", None, False),
        ("PERMISSION_DENIED", "", None, False),
        ("DEADLINE_EXCEEDED", "", None, False),
        ("INTERNAL", "", None, True),
        ("INTERNAL", "INTERNAL", None, False),
        ("INTERNAL", "NUMERICAL_FAILURE", None, False),
        ("DATA_LOSS", "", None, False),
    ],
)
def test_what_may_go_on(code: str, reason: str, retry_after_s: float | None, again: bool) -> None:
    remote = RemoteError(grpc.StatusCode[code], "so it is", reason, retry_after_s=retry_after_s)
    assert may_go_on(RequestError(remote)) is again


def test_a_server_that_is_not_there_may_come_and_a_fault_of_ours_may_not_pass() -> None:
    assert may_go_on(NOBODY)
    assert not may_go_on(ClientError("a fault of ours"))


def test_the_next_server_is_asked_at_once_and_then_there_is_a_pause() -> None:
    tries = Tries(Patience(), servers=3, timeout_s=None)
    pauses = [tries.pause_after(LOST) for _ in range(9)]
    assert [bool(pause) for pause in pauses] == [False, False, True] * 3
    assert pauses[2] < pauses[5] < pauses[8]


def test_news_make_the_next_pause_short_again() -> None:
    tries = Tries(Patience(), servers=1, timeout_s=None)
    first, *_, last = (tries.pause_after(LOST) for _ in range(4))
    assert last > 4 * first
    tries.progressed()
    assert tries.pause_after(LOST) < 2 * first


def test_the_soonest_time_that_a_server_named_is_waited_for() -> None:
    tries = Tries(Patience(), servers=3, timeout_s=None)
    pauses = [tries.pause_after(error) for error in (busy(5.0), LOST, busy(3.0))]
    assert pauses[:2] == [0.0, 0.0]
    assert 3.0 <= pauses[2] <= 3.0 * (1 + LONGEST_JITTER)


def test_a_wait_that_patience_does_not_cover_is_not_begun() -> None:
    tries = Tries(Patience(total_s=2.0), servers=1, timeout_s=None)
    with pytest.raises(RequestError, match="full"):
        tries.pause_after(busy(5.0))


def test_a_wait_that_the_deadline_does_not_cover_is_not_begun() -> None:
    tries = Tries(Patience(), servers=1, timeout_s=2.0)
    assert 1.5 < (tries.left_s() or 0.0) <= 2.0
    with pytest.raises(RequestError, match="full"):
        tries.pause_after(busy(2.0))


def test_servers_that_never_answered_are_each_asked_once() -> None:
    tries = Tries(Patience(), servers=2, timeout_s=None)
    assert tries.pause_after(NOBODY) == 0.0
    with pytest.raises(UnreachableError):
        tries.pause_after(NOBODY)


def test_what_a_server_said_is_told_rather_than_that_it_is_gone() -> None:
    tries = Tries(Patience(total_s=0.15), servers=1, timeout_s=None)
    tries.progressed()
    assert tries.pause_after(LOST) > 0
    with pytest.raises(RequestError, match="the connection was lost"):
        tries.pause_after(NOBODY)


def test_a_request_that_breaks_every_server_is_given_up() -> None:
    tries = Tries(Patience(most_breaks=5), servers=2, timeout_s=None)
    for _ in range(4):
        tries.progressed()
        tries.pause_after(LOST)
    with pytest.raises(RequestError):
        tries.pause_after(LOST)


def test_an_error_that_says_no_is_final() -> None:
    no = RequestError(RemoteError(grpc.StatusCode.INVALID_ARGUMENT, "no", "INVALID_FIELD"))
    with pytest.raises(RequestError, match="no"):
        Tries(Patience(), servers=3, timeout_s=None).pause_after(no)
