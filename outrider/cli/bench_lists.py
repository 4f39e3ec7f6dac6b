"""Options of `outrider bench` that take several values, parted by commas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from outrider.bench.prompts import ALL_KINDS
from outrider.cli.pair import ComparedDraft
from outrider.drafter import Drafter

MOST_AT_ONCE = 4096
LONGEST_ROUND_TRIP_MS = 10_000.0

Value = TypeVar("Value")


def concurrencies(text: str) -> list[int]:
    """`1,2,4`: how many generations at once. Raises typer.BadParameter."""
    allowed = f"1 to {MOST_AT_ONCE}, several parted by commas"
    return _values("--concurrency", text, int, _is_load, allowed=allowed)


def round_trips_ms(text: str) -> list[float]:
    """`0,25`: milliseconds. Empty: none. Raises typer.BadParameter."""
    if not text:
        return []
    allowed = f"0 to {LONGEST_ROUND_TRIP_MS:g} milliseconds, several parted by commas"
    return _values("--round-trip-ms", text, float, _is_round_trip, allowed=allowed)


def kinds(text: str) -> list[str]:
    """`code,chat`: kinds of built-in prompts. Raises typer.BadParameter."""
    allowed = f"some of {', '.join(ALL_KINDS)}, parted by commas"
    return _values("--kind", text, str, ALL_KINDS.__contains__, allowed=allowed)


def drafters(text: str, model: str | None) -> list[ComparedDraft]:
    """`mixed,model=FOLDER`: drafts to compare. Empty: none. Raises typer.BadParameter."""
    if not text:
        return []
    allowed = f"some of {', '.join(Drafter)}, each with =MODEL if it likes, parted by commas"

    def drafter(word: str) -> ComparedDraft:
        way, given, own = word.partition("=")
        return ComparedDraft(word, Drafter(way), own if given else model or "")

    return _values("--drafter", text, drafter, lambda one: bool(one.model), allowed=allowed)


def _is_load(value: int) -> bool:
    return 1 <= value <= MOST_AT_ONCE


def _is_round_trip(value: float) -> bool:
    return 0.0 <= value <= LONGEST_ROUND_TRIP_MS


def _values(
    flag: str,
    text: str,
    parse: Callable[[str], Value],
    fits: Callable[[Value], bool],
    *,
    allowed: str,
) -> list[Value]:
    """Each value once, in the order given."""
    try:
        values = [parse(word.strip()) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(fits(value) for value in values):
        raise typer.BadParameter(f"must be {allowed}, got {text!r}", param_hint=flag)
    return list(dict.fromkeys(values))
