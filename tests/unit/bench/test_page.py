"""The report: whole, alone, safe, and readable on a terminal of 80 columns."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outrider.bench.measurement import Measurements
from outrider.bench.page.axis import Axis
from outrider.bench.page.report import html_report
from outrider.bench.result import Result, to_json
from outrider.bench.setting import Setting
from outrider.bench.table import report
from outrider.bench.whole_file import check_writable, write_whole
from outrider.v1 import generation_pb2

if TYPE_CHECKING:
    from conftest import Measured

AUTO = Setting("auto", generation_pb2.SPECULATION_MODE_AUTO)
FIXED = Setting("k = 2", generation_pb2.SPECULATION_MODE_ON, 2)
VOID = {"meta", "br", "img", "link", "input", "hr"}

Reported = Callable[[Measurements], Result]


@pytest.fixture
def whole(measured: Measured, reported: Reported) -> Result:
    """Two settings, two loads, two distances."""
    return reported(
        measured({AUTO: (0.06, 2), FIXED: (0.09, 2)}, round_trips_ms=(0.0, 25.0), noise=0.1)
    )


class Reader(HTMLParser):
    """Takes every element and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_loads_nothing(whole: Result) -> None:
    page = html_report(whole)
    reader = read(page)
    assert reader.links == []
    assert "script" not in reader.elements
    for forbidden in ("http://", "https://", "url(", "@import"):
        assert forbidden not in page
    assert reader.elements.count("svg") == 2 * 2 + 4 * 3 + 2
    assert "nan" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_names_of_rows_fit_beside_their_field(whole: Result) -> None:
    """At 6 units a character, which is what common fonts take at most in such words."""
    rows = re.findall(
        r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="end" class="">([^<]+)<', html_report(whole)
    )
    assert len(rows) == 2 * 2 * 2 + 2 * 2 * 3
    assert all(float(right) >= 6.0 * len(name) for right, name in rows)


def test_it_says_how_requests_were_sampled(whole: Result) -> None:
    assert "<td>temperature 0.0, verification auto</td>" in html_report(whole)


def test_names_from_outside_are_escaped(whole: Result) -> None:
    page = html_report(whole)
    assert "org/target-&lt;model&gt;" in page
    assert "<model>" not in page


def test_an_interrupted_run_says_so(measured: Measured, reported: Callable[..., Result]) -> None:
    found = reported(measured({AUTO: (0.05, 1)}, turns=1), stopped="interrupted")
    assert "Stopped before the end (interrupted)" in html_report(found)
    facts = json.loads(to_json(found))
    assert facts["complete"] is False
    assert facts["stopped"] == "interrupted"


def test_the_terminal_needs_80_columns_and_no_more(whole: Result) -> None:
    for turn in next(iter(whole.measurements.turns.values())):
        for one in turn.of(FIXED).observations:
            one.arrivals = [(when + 60.0 * (when > 10.5), count) for when, count in one.arrivals]
            one.ended += 1000.0
    whole = replace(whole, cells=whole.measurements.cells())
    output = io.StringIO()
    console = Console(file=output, width=80, highlight=False)
    for part in report(whole):
        console.print(part)
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in output.getvalue()
    assert "Set OUTRIDER_SPECULATION=auto OUTRIDER_DRAFT_LENGTH=auto" in lines


def test_the_json_has_every_figure_and_every_request(whole: Result) -> None:
    facts = json.loads(to_json(whole))
    assert facts["complete"] is True
    assert len(facts["cells"]) == 3 * 2 * 2
    assert len(facts["requests"]) == 3 * 2 * 8 * (1 + 4)
    request = facts["requests"][0]
    assert sum(count for _, count in request["arrivals"]) == 41
    assert request["arrivals"][0] == [100.0, 1]
    cell = facts["cells"][1]
    assert cell["setting"] == "auto"
    assert cell["acceptance_by_position"] == [1.0, 0.0]
    assert cell["versus"]["speed"]["low"] < cell["versus"]["speed"]["median"]


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "two \ud800")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_known_before(tmp_path: Path) -> None:
    check_writable(tmp_path / "result.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="folder"):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "gone" / "result.json")


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6), most=st.integers(2, 8))
def test_marks_are_round_evenly_spaced_and_on_the_axis(low: float, span: float, most: int) -> None:
    axis = Axis(low, low + span, 0.0, 100.0)
    if axis.high <= axis.low:
        return
    marks = list(axis.marks(most))
    assert len(marks) <= most + 1
    slack = 1e-6 * (axis.high - axis.low) + 1e-9 * abs(low)
    assert all(axis.low - slack <= mark <= axis.high + slack for mark in marks)
    gaps = [later - earlier for earlier, later in pairwise(marks)]
    if gaps:
        leading = gaps[0] / 10 ** math.floor(math.log10(gaps[0]))
        assert min(abs(leading - step) for step in (1, 2, 2.5, 5, 10)) < 0.01


@pytest.mark.parametrize(("round_s", "word"), [(0.06, "best: auto"), (0.2, "least slow: auto")])
def test_what_loses_is_not_called_the_best(
    measured: Measured, reported: Reported, round_s: float, word: str
) -> None:
    page = html_report(reported(measured({AUTO: (round_s, 2)})))
    assert word in page
