"""A chat with a model that may have no template for one."""

from __future__ import annotations

from collections.abc import Callable, Generator

from outrider.client import Client, RequestError, ResumingClient
from outrider.v1 import generation_pb2


def generate_chat(
    client: Client | ResumingClient,
    request: generation_pb2.GenerateRequest,
    on_fallback: Callable[[], None],
) -> Generator[generation_pb2.OutputChunk | generation_pb2.GenerationSummary]:
    """The events of `request`, as Client.generate gives them.

    When the model has no chat template, a chat of one message is sent as plain text instead, after
    a call of `on_fallback`; instructions are never dropped like that. Requests that are no chats
    are sent as they are.
    """
    messages = request.chat.messages
    try:
        yield from client.generate(request)
    except RequestError as error:
        if not _refuses_chats(error) or len(messages) != 1:
            raise
    else:
        return
    on_fallback()
    as_text = generation_pb2.GenerateRequest()
    as_text.CopyFrom(request)
    as_text.text = messages[0].content
    yield from client.generate(as_text)


def _refuses_chats(error: RequestError) -> bool:
    """The server wants no chat at all: its model has no template for one."""
    facts = error.remote.metadata
    return facts.get("field") == "chat" and facts.get("allowed", "").startswith("unset")
