"""The choices for one generation."""

from __future__ import annotations

from typing import Protocol

from coordinator.draft_plan import DraftFacts, DraftPlan, ForesightFacts, RoundFacts, Situation
from outrider.v1 import generation_pb2


class GenerationPolicy(Protocol):
    """Chooses round by round; is told what each round, proposal and token showed."""

    @property
    def changes(self) -> list[generation_pb2.DraftLengthChange]:
        """What was changed on the way, the last 32."""
        ...

    def plan(self, situation: Situation) -> DraftPlan:
        """How to make the next round, the first one included."""
        ...

    def copies(self, *, drawn: int, run: int) -> int:
        """How many copied tokens are worth verifying behind tokens that are.

        `drawn` of those were not copied; the last `run`, output tokens included, were. The answer
        depends on counts alone.
        """
        ...

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        """How long the round may wait from now for one more draft token; 0: not at all.

        `tokens` are there, the next is expected in `next_in_s`, inf when none is under way. The
        answer depends on counts and clocks alone.
        """
        ...

    def round(self, facts: RoundFacts) -> None:
        """A round was decided."""
        ...

    def drafted(self, facts: DraftFacts) -> None:
        """A proposal came."""
        ...

    def foresaw(self, facts: ForesightFacts) -> None:
        """The target chose a token without judging a draft's."""
        ...
