"""Chat messages to text, by the model's own template in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from outrider.errors import InvalidRequest
from outrider.v1 import generation_pb2

ROLES = {
    generation_pb2.CHAT_ROLE_SYSTEM: "system",
    generation_pb2.CHAT_ROLE_USER: "user",
    generation_pb2.CHAT_ROLE_ASSISTANT: "assistant",
}


class ChatTemplate:
    """Renders messages the way the model was trained to read them."""

    def __init__(self, source: str, *, special_tokens: dict[str, str]) -> None:
        """`special_tokens`: name, such as `bos_token` → its text, as templates use them."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationBlock],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _now
        self._template = environment.from_string(source)
        self._special_tokens = special_tokens

    def render(self, messages: Sequence[generation_pb2.ChatMessage]) -> str:
        """The prompt text, the beginning of the answer included. Raises InvalidRequest."""
        if not messages:
            raise InvalidRequest("chat.messages", "at least one message")
        plain = [
            {"role": _role(place, message), "content": message.content}
            for place, message in enumerate(messages)
        ]
        try:
            return self._template.render(
                messages=plain, add_generation_prompt=True, **self._special_tokens
            )
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InvalidRequest(
                "chat.messages", f"what the model's chat template takes ({error})"
            ) from error


class _GenerationBlock(Extension):
    """`{% generation %}` marks the model's own words in training data; here it only renders."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _role(place: int, message: generation_pb2.ChatMessage) -> str:
    role = ROLES.get(message.role)
    if role is None:
        raise InvalidRequest(
            f"chat.messages[{place}].role", "SYSTEM, USER or ASSISTANT", got=message.role
        )
    return role


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
