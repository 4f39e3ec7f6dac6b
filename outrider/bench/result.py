"""A whole result, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from outrider.bench.advice import Advice, advise
from outrider.bench.cell import Cell
from outrider.bench.finding import Finding, findings
from outrider.bench.measurement import Measurements
from outrider.bench.subject import Subject
from outrider.cli.plain import plain

FORMAT = 1
"""Grows when a field changes its meaning or goes away."""
MICROSECOND_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How it was measured."""

    made_at: str
    """UTC, ISO 8601."""
    command: str
    prompts: str
    """Which, in words."""
    sampling: Mapping[str, Any]
    max_new_tokens: int
    settings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that a report says."""

    stopped: str
    """Why it ended before its plan did; empty: it did not."""
    terms: Terms
    subject: Subject
    cells: Sequence[Cell]
    advice: Sequence[Advice]
    findings: Sequence[Finding]
    measurements: Measurements


def result(measurements: Measurements, *, terms: Terms, subject: Subject, stopped: str) -> Result:
    """The figures and what they mean, by all turns there are."""
    cells = measurements.cells()
    trips = dict.fromkeys(one.place.round_trip_ms for one in cells)
    return Result(
        stopped=stopped,
        terms=terms,
        subject=subject,
        cells=cells,
        advice=[
            advise(trip, [one for one in cells if one.place.round_trip_ms == trip])
            for trip in trips
        ],
        findings=list(findings(cells)),
        measurements=measurements,
    )


def to_json(result: Result) -> str:
    """Figures first; every request with all its arrivals last, one a line."""
    facts = {
        "format": FORMAT,
        "complete": not result.stopped,
        "stopped": result.stopped,
        "advice": [asdict(one) for one in result.advice],
        "findings": [asdict(one) for one in result.findings],
        "terms": asdict(result.terms),
        "subject": asdict(result.subject),
        "cells": [_cell(one) for one in result.cells],
    }
    head = json.dumps(facts, indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(one)}" for one in _requests(result.measurements))
    return f'{head},\n "requests": [\n{lines}\n ]\n}}\n'


def _cell(one: Cell) -> dict[str, Any]:
    return {
        **asdict(one),
        "tokens_per_round": one.rounds.tokens_per_round,
        "acceptance": one.rounds.acceptance,
        "acceptance_by_position": one.rounds.acceptance_by_position,
    }


def _requests(measurements: Measurements) -> Iterator[dict[str, Any]]:
    for place, turns in measurements.turns.items():
        for turn in turns:
            for stint in turn.stints:
                for one in stint.observations:
                    yield {
                        **asdict(place),
                        "turn": turn.number,
                        "setting": stint.setting.name,
                        "request": one.number,
                        "latency_ms": _ms(one.latency_s),
                        "arrivals": [[_ms(when - one.asked), n] for when, n in one.arrivals],
                        "speculation": plain(one.stats),
                    }


def _ms(seconds: float) -> float:
    return round(1000.0 * seconds, MICROSECOND_DIGITS)
