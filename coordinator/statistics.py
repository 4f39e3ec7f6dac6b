"""What speculation did for one generation, and the sums over all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from outrider.v1 import common_pb2, generation_pb2

MICROSECONDS_PER_MS = 1000.0


def model_ms(timings: common_pb2.Timings) -> float:
    """Forward and sampling time that a worker reported for a round."""
    return (timings.forward_us + timings.sampling_us) / MICROSECONDS_PER_MS


@dataclass(slots=True)
class SpeculationStatistics:
    """Counts and times of rounds; times in milliseconds.

    Every round counts, those that accept nothing included, so acceptance by position is
    `accepted_per_position[i] / drafted_rounds`.
    """

    rounds: int = 0
    drafted_rounds: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    output_tokens: int = 0
    draft_invalid_rounds: int = 0
    draft_missed_rounds: int = 0
    stale_proposals: int = 0
    replays: int = 0
    decode_ms: float = 0.0
    time_to_first_token_ms: float = 0.0
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    hop_ms: float = 0.0
    queue_ms: float = 0.0

    def count_round(self, *, drafted: int, accepted: int, output: int) -> None:
        """Counts one verification round by what was judged and what came out."""
        self.rounds += 1
        self.output_tokens += output
        if drafted:
            self.drafted_rounds += 1
            self.draft_tokens += drafted
            self.accepted_tokens += accepted
            missing = drafted - len(self.accepted_per_position)
            self.accepted_per_position.extend([0] * missing)
            for place in range(accepted):
                self.accepted_per_position[place] += 1

    def count_time(
        self, *, round_ms: float, target: common_pb2.Timings, draft: common_pb2.Timings | None
    ) -> None:
        """Counts where the time of one round went.

        What no worker accounts for is the hops'. That is so over all rounds together: in a run the
        target decodes one token while another is on its way.
        """
        queue_us = target.queue_us + (draft.queue_us if draft else 0)
        self.decode_ms += round_ms
        self.draft_ms += model_ms(draft) if draft else 0.0
        self.verify_ms += model_ms(target)
        self.queue_ms += queue_us / MICROSECONDS_PER_MS
        known_ms = self.draft_ms + self.verify_ms + self.queue_ms
        self.hop_ms = max(0.0, self.decode_ms - known_ms)

    def add(self, other: SpeculationStatistics) -> None:
        """Adds the counts and times of another generation; the time to first token stays."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        pairs = zip_longest(self.accepted_per_position, other.accepted_per_position, fillvalue=0)
        self.accepted_per_position = [mine + theirs for mine, theirs in pairs]

    def to_message(self) -> generation_pb2.SpeculationStats:
        """The contract's form."""
        fields = {name: getattr(self, name) for name in _SUMMED if name != "output_tokens"}
        return generation_pb2.SpeculationStats(
            **fields,
            time_to_first_token_ms=self.time_to_first_token_ms,
            accepted_per_position=self.accepted_per_position,
            mean_output_tokens_per_round=self.output_tokens / self.rounds if self.rounds else 0.0,
        )


_SUMMED = tuple(
    name
    for name in SpeculationStatistics.__dataclass_fields__
    if name not in ("accepted_per_position", "time_to_first_token_ms")
)
