"""Names of callers in settings: what their certificates have to say."""

from __future__ import annotations

import re

ALLOWED = "names such as coordinator.outrider or spiffe://…, parted by commas, or *"
_NAME = re.compile(r"\*|[A-Za-z0-9_.-]+|[a-z][a-z0-9+.-]*://[!-+\--~]+")


def check_callers(names: str) -> str:
    """`names` unchanged. Raises ValueError unless each is a DNS name, a URI or `*`."""
    if not all(map(_NAME.fullmatch, split_callers(names))):
        raise ValueError(ALLOWED)
    return names


def split_callers(names: str) -> list[str]:
    """The names of a list parted by commas; none in an empty one."""
    return [name.strip() for name in names.split(",")] if names else []
