"""The page from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from outrider.bench.page.elements import box, paragraph, tile
from outrider.bench.page.figures import figures
from outrider.bench.page.tables import tables, terms
from outrider.bench.result import Result
from outrider.cli.figures import NOTHING, number, percent, size

TITLE = "Does speculation pay here?"


def html_report(result: Result) -> str:
    """One HTML document; it loads nothing."""
    style = files("outrider.bench").joinpath("data/report.css").read_text(encoding="utf-8")
    body = "\n".join(_body(result))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)} {escape(_pair(result))}</title>\n"
        f"<style>\n{style}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _body(result: Result) -> Iterator[str]:
    yield f"<h1>{escape(TITLE)}</h1>"
    yield paragraph(f"{_pair(result)} · {result.terms.made_at}", "soft")
    if result.stopped:
        why = f"Stopped before the end ({result.stopped}): every complete turn until then is here."
        yield paragraph(why, "soft")
    for advice in result.advice:
        away = advice.round_trip_ms
        distance = "" if away is None else f"Draft {away:g} ms away. "
        parts = [paragraph(f"{distance}{advice.summary}")]
        if advice.environment:
            parts.append(f"<p>Set <code>{escape(advice.environment)}</code></p>")
        yield box("card", parts)
    yield box("tiles", _tiles(result))
    yield from figures(result)
    yield from tables(result)
    yield from terms(result)


def _pair(result: Result) -> str:
    target, draft = (result.subject.model_of(pool) for pool in ("target", "draft"))
    return f"{target} verifies, {draft} drafts" if draft else target


def _tiles(result: Result) -> Iterator[str]:
    """Of the load at which the advised setting gains most, and what it costs in memory."""
    judged = {one.judged for one in result.advice}
    best = max(
        (one for one in result.cells if one.setting in judged),
        key=lambda one: one.versus.speed.median if one.versus else 0.0,
    )
    assert best.versus is not None  # noqa: S101
    load = best.place.concurrency
    speed = best.versus.speed.median
    word = "best" if speed > 1.0 else "least slow"
    yield tile(f"{speed:.2f} ×", f"{word}: {best.setting}, {load} at once")
    yield tile(number(best.rounds.tokens_per_round, digits=2), "output tokens per round there")
    yield tile(percent(best.rounds.acceptance), "of its draft tokens accepted")
    gaps = best.token_gap_ms
    yield tile(f"{gaps.p99:.0f} ms" if gaps else NOTHING, "its longest gaps between tokens (p99)")
    draft = next((one for one in result.subject.workers if one.pool == "draft"), None)
    if draft is not None:
        yield tile(size(draft.weights_bytes), "weights of the draft, to be kept in memory")
