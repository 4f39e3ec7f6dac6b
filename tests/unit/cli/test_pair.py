"""What the services of `up` and `demo` are told when nobody says."""

from __future__ import annotations

import pytest

from outrider.cli import pair
from outrider.cli.pair import PairOptions, check_settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (pair.DRAFT_LENGTH_NAME, pair.THREADS_NAME):
        monkeypatch.delenv(name, raising=False)


def threads_of(options: PairOptions) -> str | None:
    return pair._target_flags(options).get("threads")


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


def test_the_embedded_pair_has_a_draft_length_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_settings(PairOptions()).draft_length == pair.EMBEDDED_DRAFT_LENGTH
    assert check_settings(PairOptions(draft_length=3)).draft_length == 3
    other = PairOptions(target_model="some/other", draft_model="its/draft")
    assert check_settings(other).draft_length is None
    monkeypatch.setenv(pair.DRAFT_LENGTH_NAME, "5")
    assert check_settings(PairOptions()).draft_length == 5
