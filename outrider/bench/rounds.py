"""What the rounds of many generations did, taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from outrider.bench.observation import Observation
from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShares:
    """Where the time of rounds went, in milliseconds for each output token.

    What is waited for, one after another: they add up to the time of a token.
    """

    verify: float
    """The target's forward passes and sampling."""
    queue: float
    """Waiting for a model, target or draft, that works for others."""
    draft_wait: float
    """Waiting for draft tokens: their drafting and its hop, as far as nothing hides them."""
    hop: float
    """The rest: the network and the services between the models."""

    @property
    def total(self) -> float:
        """The time of a token."""
        return self.verify + self.queue + self.draft_wait + self.hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Sums over generations; times in milliseconds.

    The first round of each reads its prompt and decides one token: `later` is without it.
    """

    later_rounds: int
    later_tokens: int
    later_ms: float
    drafted_rounds: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...]
    rounds_by_draft_length: tuple[int, ...]
    missed_rounds: int
    """Rounds whose draft tokens did not come in time."""
    ready_rounds: int
    foreseen_rounds: int
    dropped_tokens: int
    draft_ms: float
    """What drafts report, hidden behind verification or not."""
    shares: TimeShares | None
    changes: dict[str, int]
    """How often the coordinator changed the draft length, by the first word of its reason."""
    copied_tokens: int = 0
    """Of the draft tokens, those copied from earlier text."""
    accepted_copied_tokens: int = 0
    message_bytes: int = 0
    """Of all messages to and from workers in later rounds."""

    @property
    def tokens_per_round(self) -> float | None:
        """Output tokens ÷ rounds, without first rounds."""
        return _ratio(self.later_tokens, self.later_rounds)

    @property
    def round_ms(self) -> float | None:
        """Mean time of a round."""
        return _ratio(self.later_ms, self.later_rounds)

    @property
    def acceptance(self) -> float | None:
        """Accepted ÷ judged draft tokens, 0 to 1."""
        return _ratio(self.accepted_tokens, self.draft_tokens)

    @property
    def copied_share(self) -> float | None:
        """Of the draft tokens, those copied; 0 to 1."""
        return _ratio(self.copied_tokens, self.draft_tokens)

    @property
    def copied_acceptance(self) -> float | None:
        """Accepted ÷ judged copied tokens, 0 to 1."""
        return _ratio(self.accepted_copied_tokens, self.copied_tokens)

    @property
    def bytes_per_round(self) -> float | None:
        """Bytes to and from workers ÷ rounds, without first rounds."""
        return _ratio(self.message_bytes, self.later_rounds)

    @property
    def acceptance_by_position(self) -> list[float]:
        """Entry i: share of the rounds with a draft token at place i in which it was accepted."""
        lengths = self.rounds_by_draft_length
        return [
            count / (reached if (reached := sum(lengths[place + 1 :])) else self.drafted_rounds)
            for place, count in enumerate(self.accepted_per_position)
            if self.drafted_rounds
        ]

    @property
    def draft_busy(self) -> float | None:
        """Time in which a draft worked ÷ time of rounds; what does not show in `shares` is hidden
        behind verification."""
        return _ratio(self.draft_ms, self.later_ms)

    def share_of_rounds(self, count: int) -> float | None:
        """Of all but first rounds, 0 to 1."""
        return _ratio(count, self.later_rounds)

    @property
    def mean_draft_length(self) -> float | None:
        """Draft tokens for each round that had any."""
        return _ratio(self.draft_tokens, self.drafted_rounds)


def rounds_of(observations: Iterable[Observation]) -> Rounds:
    """The sums over generations that ended."""
    ended = [one for one in observations if one.stats.rounds]
    stats = [one.stats for one in ended]
    later_tokens = sum(one.tokens - 1 for one in ended)
    later_ms = sum(one.decode_ms for one in stats)
    return Rounds(
        later_rounds=sum(one.rounds - 1 for one in stats),
        later_tokens=later_tokens,
        later_ms=later_ms,
        drafted_rounds=sum(one.drafted_rounds for one in stats),
        draft_tokens=sum(one.draft_tokens for one in stats),
        accepted_tokens=sum(one.accepted_tokens for one in stats),
        accepted_per_position=_summed([one.accepted_per_position for one in stats]),
        rounds_by_draft_length=_summed([one.rounds_by_draft_length for one in stats]),
        missed_rounds=sum(one.draft_missed_rounds for one in stats),
        ready_rounds=sum(one.ready_rounds for one in stats),
        foreseen_rounds=sum(one.foreseen_rounds for one in stats),
        dropped_tokens=sum(one.dropped_tokens for one in stats),
        draft_ms=sum(one.draft_ms for one in stats),
        shares=_shares(stats, tokens=later_tokens, total_ms=later_ms),
        changes=dict(Counter(_word(change.reason) for one in stats for change in one.changes)),
        copied_tokens=sum(one.copied_tokens for one in stats),
        accepted_copied_tokens=sum(one.accepted_copied_tokens for one in stats),
        message_bytes=sum(one.target_bytes + one.draft_bytes for one in stats),
    )


def _shares(
    stats: Sequence[generation_pb2.SpeculationStats], *, tokens: int, total_ms: float
) -> TimeShares | None:
    if tokens <= 0:
        return None
    verify_ms = sum(one.verify_ms for one in stats)
    queue_ms = sum(one.queue_ms for one in stats)
    # A round that waits in the draft's queue waits once.
    wait_ms = sum(one.draft_wait_ms - one.draft_queue_ms for one in stats)
    known_ms = verify_ms + queue_ms + wait_ms
    # Workers measure by clocks of their own: together they took no longer than it took.
    fit = min(1.0, total_ms / known_ms) if known_ms else 1.0
    return TimeShares(
        verify=fit * verify_ms / tokens,
        queue=fit * queue_ms / tokens,
        draft_wait=fit * wait_ms / tokens,
        hop=max(0.0, total_ms - known_ms) / tokens,
    )


def _word(reason: str) -> str:
    return reason.split(maxsplit=1)[0].rstrip(":,") if reason.strip() else "?"


def _summed(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip_longest(*rows, fillvalue=0))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
