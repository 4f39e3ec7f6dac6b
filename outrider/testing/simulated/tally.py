"""What a simulated generation did."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.draft_plan import RoundFacts


@dataclass(slots=True)
class Tally:
    """Sums over its rounds."""

    tokens: int = 0
    rounds: int = 0
    drafted_rounds: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    ready_rounds: int = 0
    guess_rounds: int = 0
    wait_s: float = 0.0
    plain_tokens: int = 0
    copied: int = 0
    accepted_copied: int = 0

    def count(self, facts: RoundFacts) -> None:
        """One more round."""
        self.rounds += 1
        self.tokens += facts.output
        self.plain_tokens += facts.drafted == 0
        self.drafted_rounds += facts.drafted > 0
        self.draft_tokens += facts.drafted
        self.accepted += facts.accepted
        self.copied += sum(facts.copied)
        self.accepted_copied += sum(facts.copied[: facts.accepted])
        self.ready_rounds += facts.ready
        self.guess_rounds += facts.guess
        self.wait_s += facts.wait_s
