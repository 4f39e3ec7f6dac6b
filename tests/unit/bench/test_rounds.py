"""What the rounds of many generations did."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from outrider.bench.observation import Observation
from outrider.bench.rounds import TimeShares, rounds_of
from outrider.v1 import generation_pb2


def shares(**stats: float) -> TimeShares:
    """Where the time of ten tokens went, the first one aside."""
    told = generation_pb2.SpeculationStats(rounds=6, decode_ms=100.0, **stats)
    one = Observation(0, asked=0.0, token_ids=list(range(11)), stats=told)
    found = rounds_of([one, one]).shares
    assert found is not None
    return found


def test_shares_add_up_to_the_time_of_a_token() -> None:
    found = shares(verify_ms=50.0, queue_ms=8.0, draft_wait_ms=30.0)
    assert astuple(found) == pytest.approx((5.0, 0.8, 3.0, 1.2))
    assert found.total == pytest.approx(10.0)


def test_waiting_in_the_queue_of_the_draft_counts_once() -> None:
    found = shares(verify_ms=50.0, queue_ms=20.0, draft_wait_ms=40.0, draft_queue_ms=15.0)
    assert astuple(found) == pytest.approx((5.0, 2.0, 2.5, 0.5))
    assert found.total == pytest.approx(10.0)


def test_shares_are_never_more_than_the_whole() -> None:
    found = shares(verify_ms=90.0, queue_ms=30.0)
    assert astuple(found) == pytest.approx((7.5, 2.5, 0.0, 0.0))


def test_without_later_tokens_there_is_no_share() -> None:
    told = generation_pb2.SpeculationStats(rounds=1)
    assert rounds_of([Observation(0, asked=0.0, token_ids=[1], stats=told)]).shares is None
