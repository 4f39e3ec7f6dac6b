"""Processor cores as people write them."""

from __future__ import annotations

import re

ALLOWED = "processor cores such as 0, 0-3 or 0,2,4-7, each below 4096"
MOST_CORES = 4096
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse_cores(text: str) -> frozenset[int]:
    """From `0-3,6`; from an empty text the empty set. Raises ValueError."""
    cores: set[int] = set()
    for word in text.split(",") if text.strip() else ():
        found = _RANGE.fullmatch(word.strip())
        if found is None:
            raise ValueError(ALLOWED)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < MOST_CORES:
            raise ValueError(ALLOWED)
        cores.update(range(first, last + 1))
    return frozenset(cores)


def write_cores(cores: frozenset[int]) -> str:
    """As short as it can be said: `0-3,6`."""
    words: list[str] = []
    for core in sorted(cores):
        if core - 1 not in cores:
            words.append(str(core))
        elif core + 1 not in cores:
            words[-1] += f"-{core}"
    return ",".join(words)
