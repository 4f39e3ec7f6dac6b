"""Figures from statistics."""

from __future__ import annotations

import pytest

from outrider.cli.speculation import SpeculationFigures
from outrider.v1 import generation_pb2


def test_figures_of_a_generation() -> None:
    figures = SpeculationFigures(
        generation_pb2.SpeculationStats(
            rounds=5,
            drafted_rounds=4,
            draft_tokens=16,
            accepted_tokens=6,
            accepted_per_position=[3, 2, 1, 0],
            rounds_by_draft_length=[1, 0, 0, 0, 4],
            mean_output_tokens_per_round=2.2,
            decode_ms=500.0,
        )
    )
    assert figures.acceptance == pytest.approx(6 / 16)
    assert figures.acceptance_by_position == pytest.approx([0.75, 0.5, 0.25, 0.0])
    assert figures.output_tokens == 11
    assert figures.tokens_per_s == pytest.approx(20.0)
    assert figures.per_round(8.0) == pytest.approx(2.0)


def test_a_place_counts_only_where_there_was_a_draft_token() -> None:
    figures = SpeculationFigures(
        generation_pb2.SpeculationStats(
            drafted_rounds=4, accepted_per_position=[2, 1], rounds_by_draft_length=[1, 3, 1]
        )
    )
    assert figures.acceptance_by_position == pytest.approx([0.5, 1.0])


def test_nothing_to_divide_by_gives_none() -> None:
    figures = SpeculationFigures(
        generation_pb2.SpeculationStats(rounds=1, mean_output_tokens_per_round=1)
    )
    assert figures.acceptance is None
    assert figures.acceptance_by_position == []
    assert figures.tokens_per_s is None
    assert figures.per_round(0.0) is None
