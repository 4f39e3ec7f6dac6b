"""What the generations of one pool share."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy.course import COPIES
from coordinator.policy.fixed import FixedPolicy
from coordinator.policy.generation import GenerationPolicy
from coordinator.policy.measured import MeasuredPolicy
from coordinator.policy.measures import PoolMeasures
from outrider.v1 import generation_pb2

STATUS_LENGTH = 8


class PoolPolicy:
    """Makes the policy of each generation; keeps what they measured for those to come."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds that never go back."""
        self._measures = PoolMeasures(clock)

    def generation(self, terms: SpeculationTerms) -> GenerationPolicy:
        """The policy of a new generation."""
        if terms.draft_length is not None and not terms.may_stop:
            return FixedPolicy(terms, self._measures)
        return MeasuredPolicy(terms, self._measures)

    def status(self) -> generation_pb2.PolicyStatus | None:
        """What was measured; None while nothing is known."""
        measures = self._measures
        times, kind = measures.times, measures.latest
        copied = kind.copies.acceptance.survival(STATUS_LENGTH) if kind.copies.seen else []
        if not times.known:
            if not (copied and times.seen):
                return None
            return generation_pb2.PolicyStatus(
                reason=COPIES, plain_step_ms=times.plain_s * 1000, copied_survival=copied
            )
        costs = times.costs(ahead=True)
        return generation_pb2.PolicyStatus(
            draft_length=kind.draft_length,
            reason=kind.reason,
            survival=kind.belief.acceptance.survival(STATUS_LENGTH),
            draft_token_ms=costs.token_s * 1000,
            draft_round_trip_ms=costs.round_trip_s * 1000,
            verify_ms=costs.verify_s * 1000,
            verify_row_ms=costs.row_s * 1000,
            plain_step_ms=costs.plain_s * 1000,
            switches=measures.switches,
            copied_survival=copied,
        )
