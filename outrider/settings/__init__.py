"""Settings of the three services: one typed object each, from flags and `OUTRIDER_*` variables."""

from outrider.settings.coordinator import CoordinatorSettings, DraftTrust, SpeculationChoice
from outrider.settings.environment import all_environment_names, environment_names, unknown_names
from outrider.settings.faults import SettingsError
from outrider.settings.loading import load_settings
from outrider.settings.service import LogFormat, LogLevel, ServiceSettings
from outrider.settings.workers import (
    DraftSettings,
    DtypeChoice,
    EngineChoice,
    TargetSettings,
    WorkerSettings,
)

__all__ = [
    "CoordinatorSettings",
    "DraftSettings",
    "DraftTrust",
    "DtypeChoice",
    "EngineChoice",
    "LogFormat",
    "LogLevel",
    "ServiceSettings",
    "SettingsError",
    "SpeculationChoice",
    "TargetSettings",
    "WorkerSettings",
    "all_environment_names",
    "environment_names",
    "load_settings",
    "unknown_names",
]
