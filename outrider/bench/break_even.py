"""When speculation pays: output tokens per round > 1 + relative overhead of drafting and hops."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.bench.cell import Cell
from outrider.bench.rounds import Rounds

HALVINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a round takes beyond a step of the target alone, in such steps. May be below 0."""

    verify: float
    queue: float
    draft_wait: float
    hop: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.verify + self.queue + self.draft_wait + self.hop


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The arithmetic of one cell, on the rounds after the first of each generation."""

    step_ms: float
    """A token of the target alone, under the same load."""
    round_ms: float
    tokens_per_round: float
    overhead: Overhead
    acceptance: float | None
    needed_acceptance: float | None
    """At the measured draft length; None: no acceptance would be enough, or nothing was drafted."""

    @property
    def round_steps(self) -> float:
        """What a round takes, in steps of the target alone: as many tokens it must bring."""
        return self.round_ms / self.step_ms

    @property
    def speed(self) -> float:
        """Tokens per second against the target alone that follow from both figures."""
        return self.tokens_per_round / self.round_steps


def break_even(ours: Cell, alone: Cell) -> BreakEven | None:
    """`alone` is the target alone at the same place. None: nothing but first rounds."""
    step_ms, round_ms = alone.rounds.round_ms, ours.rounds.round_ms
    per_round, steps_tokens = ours.rounds.tokens_per_round, alone.rounds.tokens_per_round
    shares, step = ours.rounds.shares, alone.rounds.shares
    if not (step_ms and round_ms and per_round and steps_tokens and shares and step):
        return None

    def over(name: str) -> float:
        more: float = getattr(shares, name) * per_round - getattr(step, name) * steps_tokens
        return more / step_ms

    return BreakEven(
        step_ms=step_ms,
        round_ms=round_ms,
        tokens_per_round=per_round,
        overhead=Overhead(
            verify=over("verify"),
            queue=over("queue"),
            draft_wait=over("draft_wait"),
            hop=over("hop"),
        ),
        acceptance=ours.rounds.acceptance,
        needed_acceptance=_needed_acceptance(ours.rounds, round_ms / step_ms),
    )


def _needed_acceptance(rounds: Rounds, tokens_per_round: float) -> float | None:
    """The acceptance, the same at each place, that brings so many tokens per round (Leviathan et
    al. 2023, equation 1) when as many rounds are drafted, with as many tokens, as were."""
    length = rounds.mean_draft_length
    if length is None or not rounds.later_rounds:
        return None
    drafted = rounds.drafted_rounds / rounds.later_rounds
    if 1.0 + drafted * length < tokens_per_round:
        return None
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        accepted = middle * (1.0 - middle**length) / (1.0 - middle)
        low, high = (middle, high) if 1.0 + drafted * accepted < tokens_per_round else (low, middle)
    return high
