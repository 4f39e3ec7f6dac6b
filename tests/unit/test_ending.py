"""Where an output ends."""

from __future__ import annotations

import pytest

from coordinator.ending import cut_output
from outrider.v1 import generation_pb2

STOP = generation_pb2.FINISH_REASON_STOP
LENGTH = generation_pb2.FINISH_REASON_LENGTH


@pytest.mark.parametrize(
    ("token_ids", "room", "stops", "kept", "reason"),
    [
        ([5, 6, 7], 10, {9}, [5, 6, 7], None),
        ([5, 9, 7], 10, {9}, [5, 9], STOP),
        ([9], 1, {9}, [9], STOP),
        ([5, 6, 7], 3, {9}, [5, 6, 7], LENGTH),
        ([5, 6, 7, 8], 3, set(), [5, 6, 7], LENGTH),
        ([5, 6, 7, 9], 3, {9}, [5, 6, 7], LENGTH),
        ([5, 6, 9], 3, {9}, [5, 6, 9], STOP),
        ([], 3, {9}, [], None),
    ],
)
def test_output_is_cut_behind_the_first_stop_id_and_at_the_room_left(
    token_ids: list[int], room: int, stops: set[int], kept: list[int], reason: int | None
) -> None:
    cut = cut_output(token_ids, room=room, stop_token_ids=stops)
    assert list(cut.token_ids) == kept
    assert cut.finish_reason == reason
