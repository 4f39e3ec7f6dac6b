"""Figures as people read them."""

from __future__ import annotations

NOTHING = "–"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
STEP = 1024


def percent(share: float | None) -> str:
    """A share of 0 to 1 as a percentage."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def number(value: float | None, *, digits: int = 1) -> str:
    """A rounded number, or a dash when there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def signed(value: float, *, digits: int = 2) -> str:
    """A rounded number with its sign; what rounds to nothing is +0."""
    return f"{value:+z.{digits}f}".replace("-", "−")


def size(count: int) -> str:
    """Bytes in the largest unit that leaves a whole one."""
    scaled, unit = float(count), 0
    while scaled >= STEP and unit < len(UNITS) - 1:
        scaled, unit = scaled / STEP, unit + 1
    return f"{scaled:.{1 if unit else 0}f} {UNITS[unit]}"


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
