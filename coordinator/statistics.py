"""What speculation did for one generation, and the sums over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from coordinator.proposal import Proposal
from coordinator.worker_time import WorkerTime
from outrider.v1 import generation_pb2

MS_PER_S = 1000.0


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
    rounds_by_draft_length: list[int] = field(default_factory=list)
    ready_rounds: int = 0
    foreseen_rounds: int = 0
    dropped_tokens: int = 0
    draft_wait_ms: float = 0.0
    draft_queue_ms: float = 0.0
    target_moves: int = 0
    draft_moves: int = 0
    copied_tokens: int = 0
    accepted_copied_tokens: int = 0
    target_bytes: int = 0
    draft_bytes: int = 0
    draft_failed: int = 0
    """Times that a draft's model gave no numbers."""
    draft_on_path_ms: float = 0.0
    """The part of draft_ms that rounds waited for; the rest was hidden behind verification."""

    def count_round(self, *, drafted: int, accepted: int, output: int) -> None:
        """Counts one verification round by what was judged and what came out."""
        self.rounds += 1
        self.output_tokens += output
        _count_at(self.rounds_by_draft_length, drafted)
        if drafted:
            self.drafted_rounds += 1
            self.draft_tokens += drafted
            self.accepted_tokens += accepted
            missing = drafted - len(self.accepted_per_position)
            self.accepted_per_position.extend([0] * missing)
            for place in range(accepted):
                self.accepted_per_position[place] += 1

    def count_copies(self, copied: Sequence[bool], *, accepted: int) -> None:
        """Counts which of the judged draft tokens of a round were copied."""
        self.copied_tokens += sum(copied)
        self.accepted_copied_tokens += sum(copied[:accepted])

    def count_proposal(self, proposal: Proposal, *, invalid: bool) -> None:
        """Counts how a round came by its draft tokens, and whether they were set aside."""
        self.draft_invalid_rounds += invalid
        self.draft_missed_rounds += proposal.missed
        self.ready_rounds += proposal.ready
        self.foreseen_rounds += proposal.guess

    def count_time(
        self, *, round_s: float, wait_s: float, target: WorkerTime, draft: WorkerTime
    ) -> None:
        """Counts where the time of one round went.

        `wait_s`: how long it waited for draft tokens; `draft`: as much of what the draft reported
        as lies in that wait. What no worker accounts for is the hops'. That is so over all rounds
        together: in a run the target decodes one token while another is on its way.
        """
        self.decode_ms += round_s * MS_PER_S
        self.draft_wait_ms += wait_s * MS_PER_S
        self.verify_ms += target.model_s * MS_PER_S
        self.queue_ms += (target.queue_s + draft.queue_s) * MS_PER_S
        self.draft_queue_ms += draft.queue_s * MS_PER_S
        self.draft_on_path_ms += draft.model_s * MS_PER_S
        known_ms = self.draft_on_path_ms + self.verify_ms + self.queue_ms
        self.hop_ms = max(0.0, self.decode_ms - known_ms)

    def add(self, other: SpeculationStatistics) -> None:
        """Adds the counts and times of another generation; the time to first token stays."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _SUMMED_BY_ENTRY:
            pairs = zip_longest(getattr(self, name), getattr(other, name), fillvalue=0)
            setattr(self, name, [mine + theirs for mine, theirs in pairs])

    def to_message(
        self, changes: Sequence[generation_pb2.DraftLengthChange] = ()
    ) -> generation_pb2.SpeculationStats:
        """The contract's form, with what the policy changed on the way."""
        return generation_pb2.SpeculationStats(
            **{name: getattr(self, name) for name in _TOLD},
            draft_invalid_rounds=self.draft_invalid_rounds + self.draft_failed,
            time_to_first_token_ms=self.time_to_first_token_ms,
            mean_output_tokens_per_round=self.output_tokens / self.rounds if self.rounds else 0.0,
            changes=changes,
        )


def _count_at(counts: list[int], place: int) -> None:
    counts.extend([0] * (place + 1 - len(counts)))
    counts[place] += 1


_SUMMED_BY_ENTRY = ("accepted_per_position", "rounds_by_draft_length")
_SUMMED = tuple(
    name
    for name in SpeculationStatistics.__dataclass_fields__
    if name not in (*_SUMMED_BY_ENTRY, "time_to_first_token_ms")
)
_WORKED_OUT = {"output_tokens", "draft_on_path_ms", "draft_invalid_rounds", "draft_failed"}
_TOLD = (*(set(_SUMMED) - _WORKED_OUT), *_SUMMED_BY_ENTRY)
