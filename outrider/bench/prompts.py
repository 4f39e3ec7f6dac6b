"""What is asked: prompts built in by kind of task, or from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from outrider.v1 import generation_pb2

KINDS = ("code", "extraction", "chat", "story")
"""What is asked where nobody says what."""
EDITING = "editing"
"""Texts to be repeated with little or no change: what copies are made for."""
ALL_KINDS = (*KINDS, EDITING)
FILE_KIND = "file"
"""The kind of prompts from a file that names none."""

ROLES: Mapping[str, generation_pb2.ChatRole.ValueType] = {
    "system": generation_pb2.CHAT_ROLE_SYSTEM,
    "user": generation_pb2.CHAT_ROLE_USER,
    "assistant": generation_pb2.CHAT_ROLE_ASSISTANT,
}


class PromptFileError(Exception):
    """A file of prompts cannot be used; the text names the line."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A chat to answer, and what kind of text it asks for."""

    kind: str
    messages: tuple[Message, ...]

    def put_chat(self, request: generation_pb2.GenerateRequest) -> None:
        """Makes it the request's prompt."""
        for message in self.messages:
            request.chat.messages.add(role=ROLES[message.role], content=message.content)

    def put_text(self, request: generation_pb2.GenerateRequest) -> None:
        """Makes it the request's prompt for a model that has no form for chats."""
        request.text = "\n\n".join(message.content for message in self.messages)


def built_in(kinds: Sequence[str] = KINDS) -> list[Prompt]:
    """The built-in prompts of these kinds, the kinds in turn so that any few are a mixture."""
    text = files("outrider.bench").joinpath("data/prompts.jsonl").read_text(encoding="utf-8")
    prompts = list(_parsed(text, source="the built-in prompts"))
    by_kind = [[one for one in prompts if one.kind == kind] for kind in dict.fromkeys(kinds)]
    return [prompt for row in zip(*by_kind, strict=True) for prompt in row]


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a JSONL file: `{"prompt": …}` or `{"messages": [{"role", "content"}, …]}`,
    each with a `"kind"` if it likes. Empty lines are passed over.

    Raises PromptFileError.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise PromptFileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PromptFileError(f"{path}, line {line}: not UTF-8") from None
    prompts = list(_parsed(text, source=str(path)))
    if not prompts:
        raise PromptFileError(f"{path}: no prompt in it")
    return prompts


def _parsed(text: str, *, source: str) -> Iterator[Prompt]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _prompt(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise PromptFileError(f"{source}, line {number}: {_worded(error)}") from None


def _prompt(entry: Any) -> Prompt:
    """Raises ValueError saying what is wrong."""
    if not isinstance(entry, dict):
        raise ValueError('must be an object with "prompt" or "messages"')
    if unknown := sorted(set(entry) - {"prompt", "messages", "kind"}):
        raise ValueError(f'"{unknown[0]}" is not known: only "prompt" or "messages", and "kind"')
    if ("prompt" in entry) == ("messages" in entry):
        raise ValueError('must have one of "prompt" and "messages"')
    kind = _text(entry.get("kind", FILE_KIND), "kind")
    if "prompt" in entry:
        return Prompt(kind, (Message("user", _text(entry["prompt"], "prompt")),))
    messages = entry["messages"]
    if not isinstance(messages, list) or not messages:
        raise ValueError('"messages" must be a list of at least one message')
    return Prompt(kind, tuple(_message(message) for message in messages))


def _message(entry: Any) -> Message:
    if not isinstance(entry, dict) or set(entry) != {"role", "content"}:
        raise ValueError('each message must be an object with "role" and "content"')
    if entry["role"] not in ROLES:
        raise ValueError(f'"role" must be one of {", ".join(ROLES)}')
    return Message(entry["role"], _text(entry["content"], "content"))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f'"{name}" must be a text that is not empty')
    return value


def _worded(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg} at column {error.colno})"
    return "nested too deep" if isinstance(error, RecursionError) else str(error)
