"""The share of requests or tokens that took no longer than a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from outrider.bench.page import frame
from outrider.bench.page.axis import Axis, axis_from_zero
from outrider.bench.page.canvas import Canvas, Point
from outrider.bench.statistics import quantile

WIDTH, HEIGHT = 340.0, 210.0
SHOWN = 0.99
"""A last slow hundredth would press everything else to the left; the table has it."""
MOST_POINTS = 200


def share_plot(samples: Mapping[str, Sequence[float]], *, name: str) -> str:
    """A cumulative curve for each setting, in the order of their colours. Samples are in `name`'s
    unit; a curve that begins high says that so many came at once."""
    canvas = Canvas(WIDTH, HEIGHT, label=f"Cumulative distribution of {name}")
    ends = [quantile(values, SHOWN) for values in samples.values() if values]
    across = frame.across(WIDTH)
    horizontal = axis_from_zero(max(ends, default=1.0), *across)
    vertical = Axis(0.0, 100.0, *frame.upwards(HEIGHT))
    frame.rule_levels(canvas, vertical, across)
    for mark in horizontal.marks(4):
        frame.mark_below(canvas, horizontal.at(mark), f"{mark:g}", height=HEIGHT)
    frame.name_below(canvas, name, width=WIDTH, height=HEIGHT)
    for index, values in enumerate(samples.values()):
        if values:
            canvas.path(_steps(values, horizontal, vertical), f"curve s{index}")
    return canvas.svg()


def _steps(values: Sequence[float], horizontal: Axis, vertical: Axis) -> Iterator[Point]:
    """The curve from the left edge to where it leaves the picture."""
    ordered = sorted(values)
    level = vertical.at(0.0)
    yield horizontal.at(0.0), level
    stride = max(1, len(ordered) // MOST_POINTS)
    for place in range(stride - 1, len(ordered), stride):
        if ordered[place] > horizontal.high:
            break
        yield horizontal.at(ordered[place]), level
        level = vertical.at(100.0 * (place + 1) / len(ordered))
        yield horizontal.at(ordered[place]), level
    yield horizontal.end, level
