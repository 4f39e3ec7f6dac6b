"""Tokens per second against the number of generations at once."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.cell import Cell
from outrider.bench.page import frame
from outrider.bench.page.axis import axis_from_zero
from outrider.bench.page.canvas import Canvas

WIDTH, HEIGHT = 560.0, 280.0
DODGE = 7.0
"""Between the points of settings at one load, so that no interval hides another."""


def load_plot(cells: Sequence[Cell], settings: Sequence[str]) -> str:
    """One line for each setting; whiskers are intervals of 95 %. Cells of one round trip."""
    canvas = Canvas(WIDTH, HEIGHT, label="Tokens per second against concurrency")
    loads = sorted({one.place.concurrency for one in cells})
    left, right = frame.across(WIDTH)
    largest = max(_high(one) for one in cells)
    vertical = axis_from_zero(largest, *frame.upwards(HEIGHT))
    frame.rule_levels(canvas, vertical, (left, right))
    pitch = (right - left) / len(loads)
    middles = {load: left + (place + 0.5) * pitch for place, load in enumerate(loads)}
    for load, middle in middles.items():
        frame.mark_below(canvas, middle, str(load), height=HEIGHT)
    frame.name_below(canvas, "generations at once", width=WIDTH, height=HEIGHT)
    for index, setting in enumerate(settings):
        shift = (index - (len(settings) - 1) / 2) * DODGE
        mine = sorted(
            (one for one in cells if one.setting == setting),
            key=lambda one: one.place.concurrency,
        )
        places = [middles[one.place.concurrency] + shift for one in mine]
        heights = [vertical.at(one.tokens_per_s.median) for one in mine]
        canvas.path(zip(places, heights, strict=True), f"curve s{index}")
        for one, place, height in zip(mine, places, heights, strict=True):
            speed = one.tokens_per_s
            if speed.low is not None and speed.high is not None:
                ends = ((place, vertical.at(speed.low)), (place, vertical.at(speed.high)))
                canvas.line(*ends, f"whisker s{index}")
            tip = f"{setting}, {one.place.concurrency} at once: {speed.median:.1f} tokens/s"
            canvas.dot((place, height), f"dot s{index}", tip=tip)
    return canvas.svg()


def _high(one: Cell) -> float:
    speed = one.tokens_per_s
    return speed.median if speed.high is None else speed.high
