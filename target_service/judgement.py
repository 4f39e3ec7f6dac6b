"""What a rule decides about the draft tokens of a round, and which rules there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """How draft tokens are judged."""

    REJECTION = "rejection"
    COUPLED = "coupled"


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many draft tokens are output, and the output: those, then what was drawn after them."""

    accepted: int
    output_token_ids: list[int]
