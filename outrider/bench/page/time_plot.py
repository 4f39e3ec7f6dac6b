"""Where the time of an output token goes."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.cell import Cell
from outrider.bench.finding import brief
from outrider.bench.page.axis import axis_from_zero
from outrider.bench.page.canvas import Canvas
from outrider.bench.page.frame import ROW_GAP, room_for

WIDTH, ROW, BAR, TOP, BOTTOM = 560.0, 24.0, 15.0, 4.0, 40.0
RIGHT, GAP = 70.0, 2.0

PARTS = (
    ("verify", "verification"),
    ("queue", "queues"),
    ("draft_wait", "waiting for the draft"),
    ("hop", "hops"),
)
"""Fields of TimeShares, and what the legend calls them, from left to right."""


def time_plot(cells: Sequence[Cell]) -> str:
    """A bar for each setting at each place, in milliseconds for each output token."""
    rows = [(one, one.rounds.shares) for one in cells if one.rounds.shares is not None]
    height = TOP + ROW * len(rows) + BOTTOM
    canvas = Canvas(WIDTH, height, label="Time of an output token, by what is waited for")
    longest = max((shares.total for _, shares in rows), default=1.0)
    labels = [f"{brief(one.place)}, {one.setting}" for one, _ in rows]
    left = room_for(labels)
    axis = axis_from_zero(longest, left, WIDTH - RIGHT)
    floor = height - BOTTOM
    for mark in axis.marks():
        canvas.line((axis.at(mark), TOP), (axis.at(mark), floor), "grid")
        canvas.words((axis.at(mark), floor + 16.0), f"{mark:g}", anchor="middle", look="mark")
    middle = (left + WIDTH - RIGHT) / 2
    canvas.words((middle, floor + 32.0), "ms for each output token", anchor="middle", look="mark")
    for row, (label, (_, shares)) in enumerate(zip(labels, rows, strict=True)):
        level = TOP + (row + 0.5) * ROW
        canvas.words((left - ROW_GAP, level + 4.0), label, anchor="end")
        begin = 0.0
        for name, meaning in PARTS:
            share: float = getattr(shares, name)
            start, end = axis.at(begin), axis.at(begin + share)
            begin += share
            if end - start > GAP:
                tip = f"{label}: {meaning} {share:.1f} ms, {share / shares.total:.0%}"
                corner = start, level - BAR / 2
                canvas.bar(corner, (end - start - GAP, BAR), f"part-{name}", tip=tip)
        canvas.words((axis.at(begin) + 8.0, level + 4.0), f"{shares.total:.1f} ms", look="figure")
    return canvas.svg()
