"""Small pieces of HTML. Every text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def paragraph(text: str, look: str = "") -> str:
    """One paragraph."""
    return f"<p{_class(look)}>{escape(text)}</p>"


def heading(text: str) -> str:
    """Begins a section."""
    return f"<h2>{escape(text)}</h2>"


def figure(picture: str, *, title: str, caption: str = "", legend: str = "") -> str:
    """A picture (SVG) with its words above it."""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{escape(title)}</h3>{words}{legend}{picture}</figure>"


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Names with the looks that their marks have."""
    spans = (f'<span class="{look}"><i></i><b>{escape(name)}</b></span>' for look, name in entries)
    return f'<div class="legend">{"".join(spans)}</div>'


def tile(figure: str, meaning: str) -> str:
    """One large figure and what it is."""
    return f'<div class="tile"><b>{escape(figure)}</b><span>{escape(meaning)}</span></div>'


def table(headings: Sequence[str], rows: Iterable[str]) -> str:
    """A table of rows that `row` and `wide_row` made."""
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    body = "".join(rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and what is to say of each."""
    body = "".join(row(pair) for pair in rows)
    return f'<table class="words"><tbody>{body}</tbody></table>'


def row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def wide_row(text: str, *, columns: int) -> str:
    """A row that names those below it."""
    return f'<tr class="place"><td colspan="{columns}">{escape(text)}</td></tr>'


def box(look: str, parts: Iterable[str]) -> str:
    """Pieces of HTML side by side in one block."""
    return f"<div{_class(look)}>{''.join(parts)}</div>"


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""
