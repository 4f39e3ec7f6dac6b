"""Figures of a cell from generations whose every arrival is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outrider.bench.observation import Observation
from outrider.bench.rounds import rounds_of
from outrider.bench.setting import Setting
from outrider.v1 import generation_pb2

if TYPE_CHECKING:
    from conftest import Measured

FIXED = Setting("k = 4", generation_pb2.SPECULATION_MODE_ON, 4)


def test_what_is_seen_is_what_was_put_in(measured: Measured) -> None:
    alone, ours = measured({FIXED: (0.075, 2)}, loads=(4,), noise=0.0).cells()
    assert (alone.requests, alone.turns, alone.output_tokens) == (32, 8, 32 * 41)
    assert alone.tokens_per_s.median == pytest.approx(4 * 41 / 2.1)
    assert alone.versus is None
    assert ours.versus is not None
    assert ours.versus.speed.median == pytest.approx(2.1 / 1.6)
    assert ours.versus.latency is not None
    assert ours.versus.latency.median == pytest.approx(1.6 / 2.1)
    assert ours.versus.first_token is not None
    assert ours.versus.first_token.median == pytest.approx(1.0)
    assert (ours.versus.equal_outputs, ours.versus.outputs) == (32, 32)
    assert ours.token_gap_ms is not None
    assert ours.token_gap_ms.p50 == pytest.approx(37.5, abs=38.0)
    assert ours.token_gap_ms.p99 == pytest.approx(75.0)
    assert ours.chunk_gap_ms is not None
    assert ours.chunk_gap_ms.p50 == pytest.approx(75.0)


def test_outputs_are_compared_token_by_token(measured: Measured) -> None:
    measurements = measured({FIXED: (0.05, 2)}, loads=(2,), turns=3)
    (turns,) = measurements.turns.values()
    turns[1].of(FIXED).observations[0].token_ids[-1] += 1
    _, ours = measurements.cells()
    assert ours.versus is not None
    assert (ours.versus.equal_outputs, ours.versus.outputs) == (5, 6)


def test_a_place_is_counted_by_the_rounds_that_reached_it() -> None:
    """Two drafted tokens in one round and one in another: place 2 was there once."""
    stats = generation_pb2.SpeculationStats(
        rounds=4,
        drafted_rounds=2,
        draft_tokens=3,
        accepted_tokens=2,
        accepted_per_position=[1, 1],
        rounds_by_draft_length=[2, 1, 1],
    )
    rounds = rounds_of([Observation(0, 0.0, stats=stats)])
    assert rounds.acceptance_by_position == [0.5, 1.0]
    assert rounds.mean_draft_length == 1.5


def test_a_server_that_does_not_tell_lengths_is_read_by_drafted_rounds() -> None:
    stats = generation_pb2.SpeculationStats(
        rounds=5, drafted_rounds=4, draft_tokens=8, accepted_per_position=[3, 1]
    )
    assert rounds_of([Observation(0, 0.0, stats=stats)]).acceptance_by_position == [0.75, 0.25]


def test_generations_that_never_answered_are_left_out() -> None:
    rounds = rounds_of([Observation(0, 0.0)])
    assert rounds.later_rounds == 0
    assert rounds.tokens_per_round is None
    assert rounds.acceptance is None
    assert rounds.acceptance_by_position == []


def test_changes_are_counted_by_their_reason() -> None:
    stats = generation_pb2.SpeculationStats(rounds=2)
    for reason in ("START", "ACCEPTANCE: 0.2 after 40 tokens", "ACCEPTANCE: 0.7", ""):
        stats.changes.add(reason=reason)
    rounds = rounds_of([Observation(0, 0.0, stats=stats)])
    assert rounds.changes == {"START": 1, "ACCEPTANCE": 2, "?": 1}
