"""Chat messages to text, by the model's own template in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.text.template_environment import template_environment
from outrider.errors import InvalidRequest
from outrider.v1 import generation_pb2

ROLES = {
    generation_pb2.CHAT_ROLE_SYSTEM: "system",
    generation_pb2.CHAT_ROLE_USER: "user",
    generation_pb2.CHAT_ROLE_ASSISTANT: "assistant",
}

LONGEST_PROMPT = 64 * 1024 * 1024
"""Characters; more than any request brings, so that no template fills the memory."""

LONGEST_REASON = 200
"""Characters of a template's own words that callers get to see."""


class ChatTemplate:
    """Renders messages the way the model was trained to read them."""

    def __init__(self, source: str, *, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens`: name, such as `bos_token` → its text, as templates use them.

        Raises jinja2.TemplateSyntaxError.
        """
        self._template = template_environment().from_string(source)
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Sequence[generation_pb2.ChatMessage]) -> str:
        """The prompt text, the beginning of the answer included. Raises InvalidRequest."""
        if not messages:
            raise InvalidRequest("chat.messages", "at least one message")
        plain = [
            {"role": _role(place, message), "content": message.content}
            for place, message in enumerate(messages)
        ]
        try:
            return self._render(plain)
        except InvalidRequest:
            raise
        except Exception as error:  # A template may raise anything Python knows.
            reason = (str(error) or type(error).__name__)[:LONGEST_REASON]
            raise InvalidRequest(
                "chat.messages", f"what the model's chat template takes ({reason})"
            ) from error

    def _render(self, messages: list[dict[str, Any]]) -> str:
        values = {
            **self._special_tokens,
            "messages": messages,
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
        }
        pieces = []
        length = 0
        for piece in self._template.generate(values):
            length += len(piece)
            if length > LONGEST_PROMPT:
                raise InvalidRequest(
                    "chat.messages", f"at most {LONGEST_PROMPT} rendered characters"
                )
            pieces.append(piece)
        return "".join(pieces)


def _role(place: int, message: generation_pb2.ChatMessage) -> str:
    role = ROLES.get(message.role)
    if role is None:
        raise InvalidRequest(
            f"chat.messages[{place}].role", "SYSTEM, USER or ASSISTANT", got=message.role
        )
    return role
