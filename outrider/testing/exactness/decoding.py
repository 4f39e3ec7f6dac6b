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
    """One verification of one generation.

    `replayed`: it was answered after state was lost. `foreseen`: its draft tokens were drafted
    below a guess at the correction before them.
    """

    draft_length: int
    accepted: int
    output_token_ids: Sequence[int]
    replayed: bool = False
    foreseen: bool = False

    @property
    def all_accepted(self) -> bool:
        """There were draft tokens and none was rejected."""
        return 0 < self.draft_length == self.accepted


class Decoder(Protocol):
    """Decodes requests under test."""

    def __call__(self, requests: Sequence[Request]) -> Iterable[Sequence[Round]]:
        """The rounds of each request, in the order of the requests.

        Together they have at least max_new_tokens output ids.
        """
        ...


class Place(Enum):
    """Where in a round an output token was decided; known before it is drawn."""

    ALONE = auto()
    """In a round without draft tokens."""
    FIRST = auto()
    """The first draft token after such a round."""
    INSIDE = auto()
    """A later draft token of a round."""
    BONUS = auto()
    """Behind draft tokens that were all accepted, in the same round."""
    AFTER_BONUS = auto()
    """The first draft token after a round that ended so."""
    AFTER_ALL = auto()
    """The first draft token after a round whose tokens were all accepted, without a bonus."""
    AFTER_REJECTION = auto()
    FORESEEN = auto()
    """The first draft token below a guess at the correction before it."""
    AFTER_REPLAY = auto()
    """The first token of a round that was answered after state was lost."""


def places(rounds: Sequence[Round]) -> list[Place]:
    """The place of each output token of a generation, in order."""
    found: list[Place] = []
    before: Round | None = None
    for this in rounds:
        for index in range(len(this.output_token_ids)):
            if index == 0:
                found.append(_first_place(this, before))
            else:
                found.append(Place.BONUS if index == this.draft_length else Place.INSIDE)
        before = this
    return found


def _first_place(this: Round, before: Round | None) -> Place:
    if this.replayed:
        return Place.AFTER_REPLAY
    if this.draft_length == 0:
        return Place.ALONE
    if this.foreseen:
        return Place.FORESEEN
    if before is None or before.draft_length == 0:
        return Place.FIRST
    if not before.all_accepted:
        return Place.AFTER_REJECTION
    with_bonus = len(before.output_token_ids) > before.accepted
    return Place.AFTER_BONUS if with_bonus else Place.AFTER_ALL
