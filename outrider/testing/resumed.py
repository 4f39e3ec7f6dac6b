"""Answers as a client sees them that goes on when a coordinator is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.client import Patience, ResumingClient, Retry
from outrider.v1 import generation_pb2

PATIENCE = Patience(reach_s=30.0)


@dataclass(slots=True)
class Answer:
    """All that came, and how often it broke."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    retries: list[Retry] = field(default_factory=list)


def ask(
    addresses: Sequence[str],
    request: generation_pb2.GenerateRequest,
    on_length: Callable[[int], None] = lambda length: None,
) -> Answer:
    """Runs one request to its end; `on_length` hears how many ids have come.

    Raises ClientError when the client gives up.
    """
    answer = Answer()
    with ResumingClient(addresses, patience=PATIENCE, on_retry=answer.retries.append) as client:
        for event in client.generate(request):
            answer.text += event.text
            if isinstance(event, generation_pb2.OutputChunk):
                answer.token_ids += event.token_ids
                on_length(len(answer.token_ids))
    return answer
