"""What the generations of one pool share."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy.generation import GenerationPolicy
from outrider.v1 import generation_pb2


class PoolPolicy:
    """Makes the policy of each generation; keeps what they measured for those to come."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds that never go back."""
        self._clock = clock

    def generation(self, terms: SpeculationTerms) -> GenerationPolicy:
        """The policy of a new generation."""
        return GenerationPolicy(terms)

    def status(self) -> generation_pb2.PolicyStatus | None:
        """What was measured; None while nothing is known."""
        return None
