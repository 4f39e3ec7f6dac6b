"""What is compared, from the words of a flag."""

from __future__ import annotations

import pytest

from outrider.bench.setting import TARGET_ONLY, Setting, parse_settings
from outrider.v1 import generation_pb2


def test_settings_are_what_the_request_says() -> None:
    auto, four = parse_settings("auto, 4,04")
    assert auto.to_message() == generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_AUTO
    )
    assert four.to_message() == generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_ON, draft_length=4
    )
    assert TARGET_ONLY.to_message() == generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_OFF
    )
    assert not TARGET_ONLY.speculates


def test_what_is_not_asked_for_is_not_sent() -> None:
    bare = Setting("auto", generation_pb2.SPECULATION_MODE_AUTO).to_message()
    assert not bare.HasField("draft_ahead")
    assert not bare.HasField("branches")
    assert not bare.HasField("copies")
    off = Setting(
        "x", generation_pb2.SPECULATION_MODE_ON, 2, draft_ahead=False, branches=0, copies=0
    )
    assert off.to_message().HasField("draft_ahead")
    assert off.to_message().HasField("branches")
    assert off.to_message().HasField("copies")


@pytest.mark.parametrize("words", ["", "0", "65", "two", "auto,", "-1", "1.5", "²"])
def test_wrong_words_are_refused(words: str) -> None:
    with pytest.raises(ValueError, match="auto or 1 to 64"):
        parse_settings(words)
