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
        """Entry i: share of drafted rounds in which draft token i was accepted, 0 to 1."""
        rounds = self.stats.drafted_rounds
        return [count / rounds for count in self.stats.accepted_per_position] if rounds else []

    @property
    def output_tokens(self) -> int:
        """Output tokens that these rounds decided."""
        return round(self.stats.mean_output_tokens_per_round * self.stats.rounds)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens per second after the first round, which reads the prompt and decides one
        token."""
        return _ratio((self.output_tokens - 1) * 1000.0, self.stats.decode_ms)

    def per_round(self, total_ms: float) -> float | None:
        """Milliseconds per round after the first."""
        return _ratio(total_ms, self.stats.rounds - 1)


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None
