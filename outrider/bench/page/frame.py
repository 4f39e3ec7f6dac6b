"""What all plots share: the field between two axes, its grid and its words."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.bench.page.axis import Axis
from outrider.bench.page.canvas import Canvas

LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 40.0
MARK_GAP = 6.0
WORDS_HEIGHT = 4.0
"""From the middle of a line of words to its base."""
CHARACTER, ROW_GAP = 6.5, 12.0
"""Width of a character, at most on average; and between the name of a row and its field."""


def across(width: float) -> tuple[float, float]:
    """From left to right of the field in a picture of this width."""
    return LEFT, width - RIGHT


def upwards(height: float) -> tuple[float, float]:
    """From bottom to top of the field in a picture of this height."""
    return height - BOTTOM, TOP


def rule_levels(canvas: Canvas, vertical: Axis, across: tuple[float, float]) -> None:
    """A faint line and a number for each mark of the vertical axis."""
    left, right = across
    for mark in vertical.marks():
        height = vertical.at(mark)
        canvas.line((left, height), (right, height), "grid")
        canvas.words(
            (left - MARK_GAP, height + WORDS_HEIGHT), f"{mark:g}", anchor="end", look="mark"
        )


def mark_below(canvas: Canvas, place: float, words: str, *, height: float) -> None:
    """A mark of the horizontal axis, in a picture of this height."""
    canvas.words((place, height - BOTTOM + 16.0), words, anchor="middle", look="mark")


def name_below(canvas: Canvas, words: str, *, width: float, height: float) -> None:
    """What the horizontal axis shows."""
    left, right = across(width)
    canvas.words(((left + right) / 2, height - 6.0), words, anchor="middle", look="mark")


def room_for(names: Iterable[str]) -> float:
    """What the names of rows need to the left of the field."""
    return ROW_GAP + CHARACTER * max(map(len, names), default=0)
