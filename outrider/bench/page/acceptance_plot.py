"""How often the draft token at each place of a round was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.bench.page import frame
from outrider.bench.page.axis import Axis
from outrider.bench.page.canvas import Canvas

WIDTH, HEIGHT = 560.0, 240.0


def acceptance_plot(by_position: Mapping[str, Sequence[float]]) -> str:
    """A line for each setting, in the order of their colours; shares are 0 to 1."""
    canvas = Canvas(WIDTH, HEIGHT, label="Acceptance by position")
    places = max((len(shares) for shares in by_position.values()), default=1) or 1
    across = frame.across(WIDTH)
    left, right = across
    vertical = Axis(0.0, 100.0, *frame.upwards(HEIGHT))
    frame.rule_levels(canvas, vertical, across)
    pitch = (right - left) / places
    for place in range(places):
        frame.mark_below(canvas, left + (place + 0.5) * pitch, str(place + 1), height=HEIGHT)
    frame.name_below(canvas, "place of the draft token in its round", width=WIDTH, height=HEIGHT)
    for index, (setting, shares) in enumerate(by_position.items()):
        points = [
            (left + (place + 0.5) * pitch, vertical.at(100.0 * share))
            for place, share in enumerate(shares)
        ]
        canvas.path(points, f"curve s{index}")
        for place, (point, share) in enumerate(zip(points, shares, strict=True)):
            tip = f"{setting}, place {place + 1}: {share:.1%}"
            canvas.dot(point, f"dot s{index}", tip=tip)
    return canvas.svg()
