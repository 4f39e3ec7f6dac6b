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
