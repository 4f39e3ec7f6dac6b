"""How much memory something may take: a share of what there is, or bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

ALLOWED = "auto, a share such as 0.9 or 30%, or bytes such as 8GiB or 512MiB"

_UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_AMOUNT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>%|[a-z]*)")
LARGEST_SHARE = 1.0
PERCENT = 100.0
FEWEST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """One of: a share of the free memory, above 0 up to 1; bytes; neither, which is `auto`."""

    share: float | None = None
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> MemoryBudget:
        """From `auto`, `0.9`, `30%`, `2GiB` or `1500000000`. Raises ValueError.

        A number with neither a unit nor a percent sign is a share up to 1 and bytes above it.
        """
        text = text.strip().lower()
        if text == "auto":
            return cls()
        found = _AMOUNT.fullmatch(text)
        if found is None:
            raise ValueError(ALLOWED)
        number, unit = float(found["number"]), found["unit"]
        if unit == "%":
            number, unit = number / PERCENT, ""
            if number > LARGEST_SHARE:
                raise ValueError(ALLOWED)
        if number <= 0.0 or unit not in _UNITS:
            raise ValueError(ALLOWED)
        if unit == "" and number <= LARGEST_SHARE:
            return cls(share=number)
        if unit == "" and number < FEWEST_BYTES:
            # Meant as a share, or a unit is missing: no model's state is that small.
            raise ValueError(ALLOWED)
        size = number * _UNITS[unit]
        if size < 1 or (_UNITS[unit] == 1 and not size.is_integer()):
            raise ValueError(ALLOWED)
        return cls(size=int(size))
