"""Flags of a service: one for each field of its settings, so that both never differ."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, TypeVar

import typer
from pydantic.fields import FieldInfo

from outrider.cli.terminal import notice
from outrider.settings import ServiceSettings, SettingsError, load_settings, unknown_names
from outrider.settings.environment import environment_name
from outrider.settings.faults import allowed_values

SettingsT = TypeVar("SettingsT", bound=ServiceSettings)

ANYTHING = "a valid value"
"""What `allowed_values` says of a field without a range."""


def with_flags(
    kind: type[SettingsT], command: Callable[[SettingsT], None], *, on_fault: Callable[[str], None]
) -> Callable[..., None]:
    """`command` as one that takes a flag for each field of `kind`.

    Values are checked by `kind` alone, so that faults of flags and of variables come together:
    `on_fault` gets their text.
    """

    def run(**flags: Any) -> None:
        try:
            settings = load_settings(kind, flags)
        except SettingsError as error:
            on_fault(_with_flag_names(error, flags))
        else:
            command(settings)

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(list(_parameters(kind)))  # type: ignore[attr-defined]
    return run


def flag_name(field_name: str) -> str:
    """The flag that sets a field."""
    return "--" + field_name.replace("_", "-")


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the command line says something of that parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def warn_of_unknown_settings() -> None:
    """Says on standard error which `OUTRIDER_*` variables have no meaning."""
    for fault in unknown_names(os.environ):
        notice(f"warning: {fault}")


def _parameters(kind: type[ServiceSettings]) -> Iterator[inspect.Parameter]:
    for name, field in kind.model_fields.items():
        is_switch = field.annotation is bool
        option = typer.Option(
            _switch(name) if is_switch and field.default else flag_name(name),
            metavar=None if is_switch else _metavar(field),
            help=_help(name, field),
            show_default=False,
        )
        annotation: Any = Annotated[bool | None if is_switch else str | None, option]
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )


def _switch(field_name: str) -> str:
    """The flags of what is on by default, so that it can be turned off."""
    return f"{flag_name(field_name)}/{flag_name('no_' + field_name)}"


def _metavar(field: FieldInfo) -> str:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return "NUMBER" if kind in (int, float) else "TEXT"


def _help(name: str, field: FieldInfo) -> str:
    facts = [environment_name(name)]
    if not _speaks_for_itself(field):
        facts.insert(0, allowed_values(field))
    default = field.get_default()
    if isinstance(default, Enum):
        default = default.value
    if default is True:
        facts.append("default on")
    elif default is not False and default not in (None, ""):
        facts.append(f"default {default}")
    return f"{field.description} [{'; '.join(facts)}]"


def _speaks_for_itself(field: FieldInfo) -> bool:
    """The flag's form already says what it takes."""
    kind = field.annotation
    is_choice = isinstance(kind, type) and issubclass(kind, Enum)
    return is_choice or kind is bool or allowed_values(field) == ANYTHING


def _with_flag_names(error: SettingsError, flags: dict[str, Any]) -> str:
    """The faults, each naming the flag where the value came from one."""
    text = str(error)
    for name, value in flags.items():
        if value is not None:
            text = text.replace(f"  {environment_name(name)}=", f"  {flag_name(name)}=")
    return text
