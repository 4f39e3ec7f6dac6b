"""How many times as fast as the target alone, with intervals: what is sure and what is noise."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.cell import Cell
from outrider.bench.finding import brief, interval
from outrider.bench.page.axis import Axis
from outrider.bench.page.canvas import Canvas
from outrider.bench.page.frame import ROW_GAP, room_for

WIDTH, ROW, TOP, BOTTOM = 560.0, 24.0, 8.0, 40.0
RIGHT = 150.0
ROOM = 0.06
"""Left free beyond the outermost interval."""


def speed_plot(cells: Sequence[Cell], settings: Sequence[str]) -> str:
    """One row for each setting at each load; the line at 1 is the target alone."""
    rows = [(one, one.versus.speed) for one in cells if one.versus is not None]
    height = TOP + ROW * len(rows) + BOTTOM
    canvas = Canvas(WIDTH, height, label="Speed against the target alone")
    ends = [value for _, speed in rows for value in (speed.low, speed.high, speed.median)]
    known = [value for value in (*ends, 1.0) if value is not None]
    labels = [f"{brief(one.place)}, {one.setting}" for one, _ in rows]
    left = room_for(labels)
    axis = Axis(min(known) - ROOM, max(known) + ROOM, left, WIDTH - RIGHT)
    floor = height - BOTTOM
    for mark in axis.marks():
        canvas.line((axis.at(mark), TOP), (axis.at(mark), floor), "grid")
        canvas.words((axis.at(mark), floor + 16.0), f"{mark:g}", anchor="middle", look="mark")
    canvas.line((axis.at(1.0), TOP), (axis.at(1.0), floor), "even")
    canvas.words((axis.at(1.0), floor + 32.0), "× the target alone", anchor="middle", look="mark")
    for row, (label, (one, speed)) in enumerate(zip(labels, rows, strict=True)):
        level = TOP + (row + 0.5) * ROW
        look = f"s{settings.index(one.setting)}"
        canvas.words((left - ROW_GAP, level + 4.0), label, anchor="end")
        if speed.low is not None and speed.high is not None:
            ends_of_row = (axis.at(speed.low), level), (axis.at(speed.high), level)
            canvas.line(*ends_of_row, f"whisker {look}")
        canvas.dot((axis.at(speed.median), level), f"dot {look}", tip=interval(speed))
        canvas.words((WIDTH - RIGHT + 12.0, level + 4.0), interval(speed), look="figure")
    return canvas.svg()
