"""Names of the environment variables, and help for names that are none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from outrider.settings.coordinator import CoordinatorSettings
from outrider.settings.service import PREFIX, ServiceSettings
from outrider.settings.workers import DraftSettings, TargetSettings

CLIENT_NAMES = frozenset({f"{PREFIX}ADDRESS", f"{PREFIX}API_KEY"})
"""Read by the client commands, not by a service."""


def environment_name(field_name: str) -> str:
    """The variable that sets a field."""
    return PREFIX + field_name.upper()


def environment_names(kind: type[ServiceSettings]) -> frozenset[str]:
    """Every variable that one service reads, those of other software apart."""
    return frozenset(environment_name(name) for name in kind.model_fields)


def all_environment_names() -> frozenset[str]:
    """Every `OUTRIDER_*` variable that has a meaning."""
    services = (CoordinatorSettings, TargetSettings, DraftSettings)
    return CLIENT_NAMES.union(*(environment_names(kind) for kind in services))


def unknown_names(environment: Mapping[str, str]) -> Iterable[str]:
    """One line for each `OUTRIDER_*` variable without a meaning, with the nearest that has one."""
    known = all_environment_names()
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{name} is not a setting and has no effect{hint}"
