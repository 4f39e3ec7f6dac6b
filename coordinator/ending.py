"""Where an output ends: the coordinator alone decides it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of new output ids that counts, and why the output ends there, if it does."""

    token_ids: Sequence[int]
    finish_reason: generation_pb2.FinishReason.ValueType | None


def cut_output(token_ids: Sequence[int], *, room: int, stop_token_ids: Collection[int]) -> Cut:
    """Cuts new output ids behind the first stop id and at `room` ids; a stop id is kept."""
    for place, token_id in enumerate(token_ids[:room]):
        if token_id in stop_token_ids:
            return Cut(token_ids[: place + 1], generation_pb2.FINISH_REASON_STOP)
    if len(token_ids) >= room:
        return Cut(token_ids[:room], generation_pb2.FINISH_REASON_LENGTH)
    return Cut(token_ids, None)
