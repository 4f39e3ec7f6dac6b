"""Settings from flags and the environment, all faults reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from outrider.settings.environment import environment_name
from outrider.settings.faults import SettingsError, describe_fault
from outrider.settings.service import ServiceSettings

SettingsT = TypeVar("SettingsT", bound=ServiceSettings)


def load_settings(kind: type[SettingsT], flags: Mapping[str, object] | None = None) -> SettingsT:
    """Settings of one service: a flag wins over its variable, None is a flag not given.

    Raises SettingsError, which names every wrong setting at once, and TypeError for a flag that is
    no field.
    """
    given: dict[str, Any] = {
        name: value for name, value in (flags or {}).items() if value is not None
    }
    if strangers := given.keys() - kind.model_fields.keys():
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(strangers))}")
    try:
        return kind(**given)
    except ValidationError as error:
        raise SettingsError(
            [
                describe_fault(
                    environment_name(str(fault["loc"][0])),
                    kind.model_fields[str(fault["loc"][0])],
                    fault,
                )
                for fault in error.errors()
            ]
        ) from None
