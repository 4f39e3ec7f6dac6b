"""Errors go from one process to another as they are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from outrider import errors
from outrider.errors import (
    Exhausted,
    InternalFailure,
    InvalidRequest,
    ModelNotFound,
    NotAllowed,
    NotSupported,
    NumericalFailure,
    OutOfRange,
    OutOfTime,
    OutriderError,
    PoolUnavailable,
    Unauthenticated,
)

EXAMPLES: list[OutriderError] = [
    OutriderError("odd", reason="ODD", retry_after_s=0.5, kind="test"),
    InvalidRequest("open.seed", "set", got=7),
    OutOfRange("round", "at most 8 ids", got=9),
    NotSupported("no such option", reason="PROTOCOL_VERSION", field="open", allowed="1"),
    ModelNotFound("no such model"),
    Unauthenticated("who are you?"),
    NotAllowed("not you"),
    Exhausted("all handles are in use", retry_after_s=1.0),
    OutOfTime("too late"),
    PoolUnavailable("no worker", retry_after_s=2.0),
    NumericalFailure("NaN"),
    InternalFailure("see the log"),
]


def kinds(root: type[OutriderError] = OutriderError) -> Iterator[type[OutriderError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from kinds(kind)


def test_there_is_an_example_of_every_error() -> None:
    assert {type(error) for error in EXAMPLES} == set(kinds())


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_all_its_fields(error: OutriderError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert vars(copy) == vars(error)
    assert copy.status == error.status
    assert copy.__traceback__ is None


def test_the_copy_can_be_raised_and_changed_by_itself() -> None:
    error = InvalidRequest("open.seed", "set")
    copy = pickle.loads(pickle.dumps(error))
    copy.metadata["got"] = "7"

    with pytest.raises(InvalidRequest, match=r"open\.seed: must be set"):
        raise copy
    assert error.metadata == {"field": "open.seed", "allowed": "set"}
