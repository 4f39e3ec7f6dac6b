"""What an exactness experiment asks of a decoder, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from outrider.engine.sampling_options import SamplingOptions


@dataclass(frozen=True, slots=True)
class Request:
    """One generation. `seed` is 64 bits; None: the decoder finds one, different each time."""

    prompt_token_ids: tuple[int, ...]
    options: SamplingOptions
    seed: int | None
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class Round:
    """One verification of one generation. `replayed`: it was answered after state was lost."""

    draft_length: int
    accepted: int
    output_token_ids: Sequence[int]
    replayed: bool = False


class Decoder(Protocol):
    """Decodes requests under test."""

    def __call__(self, requests: Sequence[Request]) -> Iterable[Sequence[Round]]:
        """The rounds of each request, in the order of the requests.

        Together they have at least max_new_tokens output ids.
        """
        ...


class Place(Enum):
    """Where in a round an output token was decided; known before it is drawn."""

    FIRST = auto()
    INSIDE = auto()
    AFTER_FULL_ACCEPTANCE = auto()
    AFTER_REJECTION = auto()
    AFTER_REPLAY = auto()


def places(rounds: Sequence[Round]) -> list[Place]:
    """The place of each output token of a generation, in order."""
    found: list[Place] = []
    before: Round | None = None
    for this in rounds:
        for index in range(len(this.output_token_ids)):
            if index and index == this.draft_length:
                found.append(Place.AFTER_FULL_ACCEPTANCE)
            elif index:
                found.append(Place.INSIDE)
            elif this.replayed:
                found.append(Place.AFTER_REPLAY)
            elif before is None or before.draft_length == 0:
                found.append(Place.FIRST)
            elif before.accepted == before.draft_length:
                found.append(Place.AFTER_FULL_ACCEPTANCE)
            else:
                found.append(Place.AFTER_REJECTION)
        before = this
    return found
