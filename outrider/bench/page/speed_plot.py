"""How many times as fast as the target alone, with intervals: what is sure and what is noise."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.cell import Cell
from outrider.bench.finding import brief, interval
from outrider.bench.page.axis import Axis
from outrider.bench.page.canvas import Canvas

WIDTH, ROW, TOP, BOTTOM = 560.0, 24.0, 8.0, 40.0
LEFT, RIGHT = 170.0, 150.0
ROOM = 0.06
"""Left free beyond the outermost interval."""


def speed_plot(cells: Sequence[Cell], settings: Sequence[str]) -> str:
    """One row for each setting at each load; the line at 1 is the target alone."""
    rows = [(one, one.versus.speed) for one in cells if one.versus is not None]
    height = TOP + ROW * len(rows) + BOTTOM
    canvas = Canvas(WIDTH, height, label="Speed against the target alone")
    ends = [value for _, speed in rows for value in (speed.low, speed.high, speed.median)]
    known = [value for value in (*ends, 1.0) if value is not None]
    axis = Axis(min(known) - ROOM, max(known) + ROOM, LEFT, WIDTH - RIGHT)
    floor = height - BOTTOM
    for mark in axis.marks():
        canvas.line((axis.at(mark), TOP), (axis.at(mark), floor), "grid")
        canvas.words((axis.at(mark), floor + 16.0), f"{mark:g}", anchor="middle", look="mark")
    canvas.line((axis.at(1.0), TOP), (axis.at(1.0), floor), "even")
    canvas.words((axis.at(1.0), floor + 32.0), "× the target alone", anchor="middle", look="mark")
    for row, (one, speed) in enumerate(rows):
        level = TOP + (row + 0.5) * ROW
        look = f"s{settings.index(one.setting)}"
        canvas.words((LEFT - 12.0, level + 4.0), f"{brief(one.place)}, {one.setting}", anchor="end")
        if speed.low is not None and speed.high is not None:
            ends_of_row = (axis.at(speed.low), level), (axis.at(speed.high), level)
            canvas.line(*ends_of_row, f"whisker {look}")
        canvas.dot((axis.at(speed.median), level), f"dot {look}", tip=interval(speed))
        canvas.words((WIDTH - RIGHT + 12.0, level + 4.0), interval(speed), look="figure")
    return canvas.svg()
