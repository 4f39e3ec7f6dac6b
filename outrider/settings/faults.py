"""Wording of wrong settings: each with its variable, the value found and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MaxLen
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

SHOWN_VALUE_LENGTH = 80


class SettingsError(Exception):
    """Some settings are wrong. `faults` has one line for each, `str()` all of them."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        title = "1 setting is wrong" if count == 1 else f"{count} settings are wrong"
        super().__init__("\n".join([f"{title}:", *(f"  {fault}" for fault in self.faults)]))


def describe_fault(name: str, field: FieldInfo, error: ErrorDetails) -> str:
    """One line about the value of the variable `name`."""
    if error["type"] == "value_error":
        allowed = str(error.get("ctx", {}).get("error", error["msg"]))
    else:
        allowed = allowed_values(field)
    value = error["input"]
    shown = f"{name} is unset" if value is None else f"{name}={str(value)[:SHOWN_VALUE_LENGTH]}"
    return f"{shown}: must be {allowed}. {_purpose(field)}"


def allowed_values(field: FieldInfo) -> str:
    """What the field takes, in words, such as `a whole number, 1 to 256`."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and isinstance(extra.get("allowed"), str):
        return str(extra["allowed"])
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        noun = "a whole number" if kind is int else "a number"
        return ", ".join([noun, *filter(None, [_range(field)])])
    longest = next((item.max_length for item in field.metadata if isinstance(item, MaxLen)), None)
    return f"at most {longest} characters" if longest else "a valid value"


def _range(field: FieldInfo) -> str:
    low, high = "", ""
    for item in field.metadata:
        match item:
            case Ge(ge=bound):
                low = f"{bound}"
            case Gt(gt=bound):
                low = f"above {bound}"
            case Le(le=bound):
                high = f"up to {bound}" if low.startswith("above") else f"to {bound}"
            case Lt(lt=bound):
                high = f"and below {bound}"
    return " ".join(filter(None, [low, high]))


def _purpose(field: FieldInfo) -> str:
    return (field.description or "").split(". ")[0].rstrip(".") + "."
