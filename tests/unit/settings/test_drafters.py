"""How a draft comes by its tokens, as it is set."""

from __future__ import annotations

import pytest

from outrider.drafter import Drafter
from outrider.settings import DraftSettings, SettingsError, load_settings


def test_a_draft_does_both_unless_it_is_told() -> None:
    assert load_settings(DraftSettings).drafter is Drafter.MIXED


@pytest.mark.parametrize("drafter", Drafter)
def test_each_way_is_set_by_its_name(drafter: Drafter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DRAFTER", drafter.value)
    assert load_settings(DraftSettings).drafter is drafter


def test_another_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"OUTRIDER_DRAFTER.*model.*ngram.*suffix.*mixed"):
        load_settings(DraftSettings, {"drafter": "eagle"})


def test_some_draw_and_some_copy() -> None:
    assert [(each.draws, each.copies) for each in Drafter] == [
        (True, False),
        (False, True),
        (False, True),
        (True, True),
    ]
