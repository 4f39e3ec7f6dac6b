"""Protobuf messages as plain values, for JSON that programs read."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """Every field under its proto name, defaults included.

    Unlike proto3's own JSON mapping, 64-bit integers stay numbers, enums become short lower-case
    words (`FINISH_REASON_STOP` → `stop`) and unset messages or optionals become None.
    """
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def enum_word(enum: EnumDescriptor, number: int) -> str:
    """The short word of an enum's value; its number when this version does not know it."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    return value.name.removeprefix(prefix).lower()


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        return [_value(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return plain(value)
    if field.enum_type is not None:
        return enum_word(field.enum_type, value)
    return value
