"""Messages survive whatever pieces a stream brings them in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import Exhausted, InvalidRequest
from outrider.worker.engine_frames import FrameReader, to_frame
from outrider.worker.engine_messages import Failed, LoopState, Submit, Withdraw

MESSAGES: list[Any] = [
    Submit(1, {"ids": [1, 2, 3]}, "stream", 0.5),
    Withdraw(2, 1),
    LoopState(3, 4, 0.25),
    "x" * 1000,
]


@given(
    frames=st.lists(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=3), max_size=4),
    cuts=st.lists(st.integers(0, 6000), max_size=12),
)
def test_frames_are_put_together_from_any_pieces(frames: list[list[Any]], cuts: list[int]) -> None:
    sent = b"".join(to_frame(messages) for messages in frames)
    reader, got = FrameReader(), []
    borders = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    for start, end in pairwise(borders):
        got += reader.feed(sent[start:end])
    assert got == [message for messages in frames for message in messages]


def test_nothing_is_given_before_a_frame_is_whole() -> None:
    frame, reader = to_frame(["last byte"]), FrameReader()
    for place in range(len(frame) - 1):
        assert reader.feed(frame[place : place + 1]) == []
    assert reader.feed(frame[-1:]) == ["last byte"]


def test_a_frame_may_be_longer_than_a_read() -> None:
    tokenizer = b"t" * (20 << 20)
    frame, reader = to_frame([tokenizer]), FrameReader()
    step = 1 << 18
    got = [message for start in range(0, len(frame), step)
           for message in reader.feed(frame[start : start + step])]  # fmt: skip
    assert got == [tokenizer]


@pytest.mark.parametrize(
    "error", [InvalidRequest("round", "set", got=3), Exhausted("full", retry_after_s=1.5)]
)
def test_errors_keep_their_fields(error: Any) -> None:
    (failed,) = FrameReader().feed(to_frame([Failed(7, error)]))
    assert failed.number == 7
    assert type(failed.error) is type(error)
    assert vars(failed.error) == vars(error)
