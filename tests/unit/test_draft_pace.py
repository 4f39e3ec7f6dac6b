"""How fast a draft is taken to answer."""

from __future__ import annotations

import pytest

from coordinator.draft_pace import DraftPace


def test_a_draft_that_has_become_slower_is_believed_within_ten_answers() -> None:
    pace = DraftPace()
    pace.drafted(steps=4, seconds=0.04)
    assert pace.token_s == pytest.approx(0.01)
    for _ in range(10):
        pace.drafted(steps=1, seconds=0.02)
    assert pace.token_s == pytest.approx(0.02, rel=0.1)


def test_a_long_prompt_of_one_generation_hardly_delays_the_tokens_of_all() -> None:
    pace = DraftPace()
    for _ in range(10):
        pace.drafted(steps=1, seconds=0.01)
    pace.drafted(steps=4, seconds=2.04)
    assert pace.token_s < 0.02
    for _ in range(3):
        pace.drafted(steps=1, seconds=0.01)
    assert pace.token_s == pytest.approx(0.01, rel=0.4)
