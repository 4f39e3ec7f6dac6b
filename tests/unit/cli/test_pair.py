"""What the services of `up` and `demo` are told when nobody says."""

from __future__ import annotations

import pytest

from outrider.cli import pair
from outrider.cli.pair import PairOptions, check_settings
from outrider.drafter import Drafter
from outrider.settings import SettingsError, SpeculationChoice


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OUTRIDER_DRAFT_LENGTH", pair.THREADS_NAME):
        monkeypatch.delenv(name, raising=False)


def threads_of(options: PairOptions) -> str | None:
    return pair._target_flags(options).get("threads")


def coordinator_command(options: PairOptions) -> list[str]:
    flags = pair._coordinator_flags(options, target="", draft="")
    return list(pair._plan("coordinator", flags, []).command)


@pytest.mark.parametrize(
    ("cores", "alone", "shared"), [(1, "1", "1"), (2, "2", "1"), (8, "8", "4")]
)
def test_workers_share_the_cores(
    cores: int, alone: str, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "usable_cores", lambda: list(range(cores)))
    assert threads_of(PairOptions()) == shared
    assert threads_of(PairOptions(draft_model=None)) == alone
    assert threads_of(PairOptions(threads=3)) == "3"


def test_the_environment_decides_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pair.THREADS_NAME, "7")
    assert threads_of(PairOptions()) is None


def test_speculation_is_as_it_was_asked_for_or_left_to_measurement() -> None:
    assert check_settings(PairOptions()).draft_length is None
    assert check_settings(PairOptions(draft_length="auto")).draft_length is None
    settings = check_settings(
        PairOptions(
            speculation=SpeculationChoice.ON,
            draft_length=3,
            draft_ahead=False,
            draft_branches=2,
            copies=0,
        )
    )
    assert (settings.speculation, settings.draft_length) == (SpeculationChoice.ON, 3)
    assert (settings.draft_ahead, settings.draft_branches, settings.copies) == (False, 2, 0)


def test_the_environment_decides_what_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DRAFT_LENGTH", "5")
    assert check_settings(PairOptions()).draft_length == 5
    assert check_settings(PairOptions(draft_length="auto")).draft_length is None


def test_the_draft_is_told_how_it_comes_by_tokens() -> None:
    for options, told in ((PairOptions(), None), (PairOptions(drafter=Drafter.SUFFIX), "suffix")):
        (draft,) = pair._drafters(options)
        assert pair._draft_flags(options, draft).get("drafter") == told


@pytest.mark.parametrize("drafter", Drafter)
def test_a_draft_that_would_have_nothing_to_propose_is_refused(drafter: Drafter) -> None:
    check_settings(PairOptions(drafter=drafter, copies=0, draft_length=4))
    check_settings(PairOptions(drafter=drafter, copies="auto"))
    idle = PairOptions(drafter=drafter, copies=0)
    if drafter.draws:
        check_settings(idle)
        return
    with pytest.raises(SettingsError, match="nothing to propose"):
        check_settings(idle)


@pytest.mark.parametrize("draft_ahead", [True, False])
def test_switches_have_no_value_on_a_command_line(draft_ahead: bool) -> None:
    command = coordinator_command(PairOptions(draft_ahead=draft_ahead, draft_length=2))
    assert ("--draft-ahead" if draft_ahead else "--no-draft-ahead") in command
    assert "--draft-length=2" in command
