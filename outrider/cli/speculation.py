"""Figures derived from the statistics of a generation."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True)
class SpeculationFigures:
    """What people ask of a generation's statistics. None: nothing to divide by."""

    stats: generation_pb2.SpeculationStats

    @property
    def acceptance(self) -> float | None:
        """Accepted ÷ judged draft tokens, 0 to 1."""
        return _ratio(self.stats.accepted_tokens, self.stats.draft_tokens)

    @property
    def acceptance_by_position(self) -> list[float]:
        """Entry i: share of the rounds with a draft token at place i in which it was accepted."""
        lengths = self.stats.rounds_by_draft_length
        with_place = [sum(lengths[place + 1 :]) for place in range(len(lengths))]
        pairs = zip(self.stats.accepted_per_position, with_place, strict=False)
        return [count / rounds for count, rounds in pairs if rounds]

    @property
    def output_tokens(self) -> int:
        """Output tokens that these rounds decided."""
        return round(self.stats.mean_output_tokens_per_round * self.stats.rounds)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens per second after the first round, which reads the prompt and decides one
        token."""
        return _ratio((self.output_tokens - 1) * 1000.0, self.stats.decode_ms)

    def per_round(self, total: float) -> float | None:
        """What comes to each round after the first."""
        return _ratio(total, self.stats.rounds - 1)


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None
