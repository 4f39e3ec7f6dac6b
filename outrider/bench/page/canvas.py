"""An SVG picture, drawn element by element. Colours are the page's, by class."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Literal, TypeAlias

Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]


class Canvas:
    """Coordinates grow to the right and downwards, in units of the picture's own width."""

    def __init__(self, width: float, height: float, *, label: str) -> None:
        """`label` says to a reader who cannot see it what the picture shows."""
        self._head = (
            f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}" '
            f'style="max-width:{width:g}px">'
        )
        self._parts: list[str] = []

    def line(self, start: Point, end: Point, look: str) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{look}"/>'
        )

    def path(self, points: Iterable[Point], look: str) -> None:
        """Lines from point to point."""
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{joined}" class="{look}"/>')

    def bar(self, corner: Point, size: Point, look: str, *, tip: str = "") -> None:
        """A filled rectangle from its upper left corner."""
        (x, y), (width, height) = corner, size
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'class="{look}">{_tip(tip)}</rect>'
        )

    def dot(self, centre: Point, look: str, *, tip: str = "") -> None:
        """A point with a ring that parts it from what lies below."""
        x, y = centre
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{look}">{_tip(tip)}</circle>'
        )

    def words(self, place: Point, text: str, *, anchor: Anchor = "start", look: str = "") -> None:
        """One line of text on a base line."""
        x, y = place
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{look}">'
            f"{escape(text)}</text>"
        )

    def svg(self) -> str:
        """The element."""
        return self._head + "".join(self._parts) + "</svg>"


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
