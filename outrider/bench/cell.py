"""The figures of one setting at one concurrency and one round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from outrider.bench.load import Stint
from outrider.bench.observation import Observation
from outrider.bench.rounds import Rounds, rounds_of
from outrider.bench.setting import TARGET_ONLY, Setting
from outrider.bench.statistics import Estimate, Spread, estimate, spread
from outrider.bench.turn import Turn

MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Under which load and how far from the draft."""

    concurrency: int
    round_trip_ms: float | None
    """Added to the draft's hop by a proxy; None: there is no proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """A setting against the target alone, turn by turn: ratios over the same requests."""

    speed: Estimate
    """Tokens per second; above 1 is better."""
    latency: Estimate | None
    """End-to-end time for each output token; below 1 is better."""
    first_token: Estimate | None
    """Time to the first token; below 1 is better."""
    equal_outputs: int
    outputs: int
    """Of so many outputs, `equal_outputs` are those of the target alone, token by token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What was measured. Latencies and gaps are in milliseconds."""

    setting: str
    place: Place
    turns: int
    requests: int
    output_tokens: int
    tokens_per_s: Estimate
    latency_ms: Spread
    first_token_ms: Spread | None
    token_gap_ms: Spread | None
    """Between tokens; those that come in one chunk follow at no distance."""
    chunk_gap_ms: Spread | None
    """Between chunks."""
    rounds: Rounds
    versus: Versus | None
    """None: this is the target alone."""


def cell(place: Place, setting: Setting, turns: Sequence[Turn]) -> Cell:
    """The figures over at least one turn."""
    stints = [turn.of(setting) for turn in turns]
    seen = [observation for stint in stints for observation in stint.observations]
    latency_ms = _milliseconds(seen, lambda one: [one.latency_s])
    assert latency_ms is not None  # noqa: S101
    tokens_per_s = estimate([stint.tokens_per_s for stint in stints])
    assert tokens_per_s is not None  # noqa: S101
    return Cell(
        setting=setting.name,
        place=place,
        turns=len(turns),
        requests=len(seen),
        output_tokens=sum(one.tokens for one in seen),
        tokens_per_s=tokens_per_s,
        latency_ms=latency_ms,
        first_token_ms=_milliseconds(seen, _first_token),
        token_gap_ms=_milliseconds(seen, lambda one: one.token_gaps_s),
        chunk_gap_ms=_milliseconds(seen, lambda one: one.chunk_gaps_s),
        rounds=rounds_of(seen),
        versus=_versus(setting, turns) if setting != TARGET_ONLY else None,
    )


_Figure: TypeAlias = Callable[[Stint], float | None]


def _versus(setting: Setting, turns: Sequence[Turn]) -> Versus:
    speed = _ratios(setting, turns, lambda stint: stint.tokens_per_s)
    latency = _ratios(setting, turns, lambda stint: _median(stint, _per_token))
    assert speed is not None  # noqa: S101
    pairs = [
        (ours.token_ids, theirs.token_ids)
        for turn in turns
        for ours, theirs in zip(
            turn.of(setting).observations, turn.of(TARGET_ONLY).observations, strict=True
        )
    ]
    return Versus(
        speed=speed,
        latency=latency,
        first_token=_ratios(setting, turns, lambda stint: _median(stint, _first_token)),
        equal_outputs=sum(ours == theirs for ours, theirs in pairs),
        outputs=len(pairs),
    )


def _ratios(setting: Setting, turns: Sequence[Turn], figure: _Figure) -> Estimate | None:
    def ratios() -> Iterator[float]:
        for turn in turns:
            ours, theirs = figure(turn.of(setting)), figure(turn.of(TARGET_ONLY))
            if ours is not None and theirs:
                yield ours / theirs

    return estimate(list(ratios()))


def _median(stint: Stint, samples: Callable[[Observation], list[float]]) -> float | None:
    known = [sample for one in stint.observations for sample in samples(one)]
    return median(known) if known else None


def _milliseconds(
    seen: Sequence[Observation], samples: Callable[[Observation], list[float]]
) -> Spread | None:
    return spread([MILLISECONDS * sample for one in seen for sample in samples(one)])


def _first_token(one: Observation) -> list[float]:
    return [] if one.first_token_s is None else [one.first_token_s]


def _per_token(one: Observation) -> list[float]:
    return [] if one.per_token_s is None else [one.per_token_s]
