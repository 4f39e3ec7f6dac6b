"""A plan for which there is less room than when it was made."""

from __future__ import annotations

import pytest

from coordinator.draft_plan import DraftPlan
from coordinator.drafting import limited


@pytest.mark.parametrize("room", [-1, 0, 1, 2, 4, 6, 12, 20])
def test_no_more_is_asked_for_than_there_is_room_for(room: int) -> None:
    plan = limited(DraftPlan(4, ahead=8, together=4, branches=2), room)
    assert plan.draft_length == max(0, min(4, room))
    assert plan.draft_length + plan.ahead == max(0, min(12, room))
    # A draft refuses a round whose proposal goes beyond what may be drafted.
    assert plan.together <= plan.draft_length


@pytest.mark.parametrize(("room", "copies"), [(0, 0), (4, 0), (12, 0), (15, 3), (40, 20)])
def test_copies_have_the_room_that_is_left(room: int, copies: int) -> None:
    assert limited(DraftPlan(4, ahead=8, copies=20), room).copies == copies


@pytest.mark.parametrize(("room", "together"), [(0, 0), (1, 1), (9, 1)])
def test_copies_alone_are_waited_for_where_there_is_room(room: int, together: int) -> None:
    assert limited(DraftPlan(0, together=1, copies=20), room).together == together
