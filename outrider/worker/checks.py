"""Checks of what a coordinator sends to a worker, before the model sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeVar

from outrider import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from outrider.errors import InvalidRequest, NotSupported, OutOfRange
from outrider.rpc.validation import check_sampling
from outrider.v1 import common_pb2
from outrider.worker.model_description import ModelDescription

LARGEST_CHOICE_INDEX = 127
MAX_STOP_IDS_WITH_EOS = 128
FIRST_MESSAGE_S = 30.0
"""How long a stream may stay open without saying what it is for."""


class OpenMessage(Protocol):
    """What the Opens of both contracts have in common."""

    @property
    def protocol_version(self) -> int: ...
    @property
    def sampling(self) -> common_pb2.SamplingParams: ...
    @property
    def choice_index(self) -> int: ...
    @property
    def prompt_length(self) -> int: ...


class RoundMessage(Protocol):
    """What the Rounds of both contracts have in common."""

    @property
    def base_length(self) -> int: ...
    @property
    def committed_token_ids(self) -> Sequence[int]: ...


MessageT = TypeVar("MessageT")


def check_open(
    message: OpenMessage, description: ModelDescription, *, vocabulary_size: int
) -> None:
    """Raises NotSupported for an unknown protocol version, InvalidRequest for anything else.

    `vocabulary_size` bounds the ids named in the sampling.
    """
    if not OLDEST_PROTOCOL_VERSION <= message.protocol_version <= PROTOCOL_VERSION:
        spoken = f"{OLDEST_PROTOCOL_VERSION} to {PROTOCOL_VERSION}"
        raise NotSupported(
            f"open.protocol_version: this worker speaks {spoken}, got {message.protocol_version}",
            reason="PROTOCOL_VERSION",
            field="open.protocol_version",
            allowed=spoken,
        )
    if message.choice_index > LARGEST_CHOICE_INDEX:
        raise InvalidRequest(
            "open.choice_index", f"0 to {LARGEST_CHOICE_INDEX}", got=message.choice_index
        )
    if not 1 <= message.prompt_length <= description.context_length:
        raise InvalidRequest(
            "open.prompt_length", f"1 to {description.context_length}", got=message.prompt_length
        )
    check_sampling(
        message.sampling,
        vocabulary_size=vocabulary_size,
        max_new_tokens=description.context_length,
        max_stop_ids=MAX_STOP_IDS_WITH_EOS,
    )


def check_round(
    message: RoundMessage, description: ModelDescription, *, vocabulary_size: int, extra: int
) -> None:
    """Raises InvalidRequest or OutOfRange.

    `vocabulary_size` bounds the committed ids; `extra` is how many tokens the round may add
    behind them.
    """
    if not message.committed_token_ids:
        raise InvalidRequest("round.committed_token_ids", "at least one id")
    for place, token_id in enumerate(message.committed_token_ids):
        if token_id >= vocabulary_size:
            raise InvalidRequest(
                f"round.committed_token_ids[{place}]", f"0 to {vocabulary_size - 1}", got=token_id
            )
    length = message.base_length + len(message.committed_token_ids) + extra
    if length > description.context_length:
        raise OutOfRange("round", f"at most {description.context_length} ids in all", got=length)


async def first_message(messages: AsyncIterator[MessageT]) -> MessageT:
    """The stream's first message. Raises InvalidRequest when there is none, or none in time."""
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            async for message in messages:
                return message
    except TimeoutError:
        raise InvalidRequest("open", f"sent within {FIRST_MESSAGE_S:g} s") from None
    raise InvalidRequest("open", "the first message of the stream")
