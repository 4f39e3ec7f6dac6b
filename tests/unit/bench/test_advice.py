"""The recommendation follows from the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outrider.bench.advice import advise
from outrider.bench.finding import findings
from outrider.bench.setting import Setting
from outrider.v1 import generation_pb2

if TYPE_CHECKING:
    from conftest import Measured

AUTO = Setting("auto", generation_pb2.SPECULATION_MODE_AUTO)
FIXED = Setting("k = 2", generation_pb2.SPECULATION_MODE_ON, 2)


@pytest.mark.parametrize(
    ("rounds", "recommended", "environment", "words"),
    [
        ({AUTO: (0.06, 2)}, "auto", "OUTRIDER_SPECULATION=auto", "Speculate, with auto"),
        ({AUTO: (0.06, 2), FIXED: (0.05, 2)}, "k = 2", "OUTRIDER_DRAFT_LENGTH=2", "with k = 2"),
        ({AUTO: (0.0505, 2), FIXED: (0.05, 2)}, "auto", "DRAFT_LENGTH=auto", "with auto"),
        ({AUTO: (0.15, 2)}, "target only", "OUTRIDER_SPECULATION=off", "Do not speculate"),
        ({AUTO: (0.1, 2)}, "", "", "cannot tell"),
        ({AUTO: (0.05, 1)}, "", "", "Drafts did not pay: auto let the target decode nearly alone"),
    ],
)
def test_what_pays_is_recommended(
    measured: Measured,
    rounds: dict[Setting, tuple[float, int]],
    recommended: str,
    environment: str,
    words: str,
) -> None:
    advice = advise(None, measured(rounds).cells())
    assert advice.recommended == recommended
    assert environment in advice.environment
    assert words in advice.summary


def test_few_turns_recommend_nothing(measured: Measured) -> None:
    measurements = measured({AUTO: (0.03, 2)}, turns=5)
    advice = advise(None, measurements.cells())
    assert advice.recommended == ""
    assert "Too few turns" in advice.summary
    headlines = [one.headline for one in findings(measurements.cells())]
    assert all("6 are needed" in headline for headline in headlines)


def test_a_load_that_loses_is_named(measured: Measured) -> None:
    mixed = measured({AUTO: (0.05, 2)}, loads=(1,))
    mixed.turns.update(measured({AUTO: (0.15, 2)}, loads=(8,)).turns)
    advice = advise(None, mixed.cells())
    assert advice.summary == (
        "Speculate, with auto, where the load is one at a time; with 8 at once the target alone "
        "is faster."
    )


def test_findings_show_the_numbers(measured: Measured) -> None:
    (one,) = findings(measured({AUTO: (0.075, 2)}, loads=(1,), noise=0.0).cells())
    assert one.headline.startswith("one at a time, auto: faster, 1.31 ×")
    assert "brought 2.00 output tokens and took 1.50 steps" in one.arithmetic
    assert "2.00 ÷ 1.50 = 1.33" in one.arithmetic
    assert "waiting for the draft +0.50" in one.arithmetic


def test_rounds_without_drafts_need_no_acceptance(measured: Measured) -> None:
    (one,) = findings(measured({AUTO: (0.05, 1)}, loads=(1,)).cells())
    assert one.arithmetic.endswith("Only 0.0 % of the rounds had draft tokens.")
