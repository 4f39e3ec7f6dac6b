"""What speculation did: counts that add up."""

from __future__ import annotations

import pytest

from coordinator.statistics import SpeculationStatistics
from outrider.v1 import common_pb2


def test_rounds_that_accept_nothing_count_by_position_too() -> None:
    statistics = SpeculationStatistics()
    for accepted in (0, 2, 4, 0):
        statistics.count_round(drafted=4, accepted=accepted, output=accepted + 1)
    message = statistics.to_message()
    assert (message.drafted_rounds, message.draft_tokens, message.accepted_tokens) == (4, 16, 6)
    assert list(message.accepted_per_position) == [2, 2, 1, 1]
    assert 1 + message.accepted_tokens / message.drafted_rounds == 2.5
    assert message.mean_output_tokens_per_round == 2.5


def test_without_a_bonus_the_mean_is_lower() -> None:
    statistics = SpeculationStatistics()
    for accepted in (0, 2, 4, 0):
        statistics.count_round(drafted=4, accepted=accepted, output=min(4, accepted + 1))
    assert statistics.to_message().mean_output_tokens_per_round == 2.25


def test_a_round_without_draft_tokens_is_no_drafted_round() -> None:
    statistics = SpeculationStatistics()
    statistics.count_round(drafted=0, accepted=0, output=1)
    message = statistics.to_message()
    assert (message.rounds, message.drafted_rounds, message.draft_tokens) == (1, 0, 0)
    assert message.mean_output_tokens_per_round == 1.0


def test_no_rounds_give_a_mean_of_zero() -> None:
    assert SpeculationStatistics().to_message().mean_output_tokens_per_round == 0.0


def test_times_are_split_without_remainder() -> None:
    statistics = SpeculationStatistics()
    statistics.count_time(
        round_ms=60.0,
        target=common_pb2.Timings(queue_us=2000, forward_us=40_000, sampling_us=1000),
        draft=common_pb2.Timings(queue_us=500, forward_us=12_000, sampling_us=3000),
    )
    message = statistics.to_message()
    assert message.verify_ms == pytest.approx(41.0)
    assert message.draft_ms == pytest.approx(15.0)
    assert message.queue_ms == pytest.approx(2.5)
    assert message.hop_ms == pytest.approx(1.5)
    assert message.decode_ms == pytest.approx(60.0)


def test_hops_are_what_is_left_of_all_rounds_together() -> None:
    statistics = SpeculationStatistics()
    forward = common_pb2.Timings(forward_us=10_000)
    for round_ms in (15.0, 6.0, 12.0):
        statistics.count_time(round_ms=round_ms, target=forward, draft=None)
    assert statistics.to_message().hop_ms == pytest.approx(3.0)
    statistics.count_time(round_ms=1.0, target=forward, draft=None)
    assert statistics.to_message().hop_ms == 0.0


def test_sums_over_generations_add_every_count() -> None:
    total, one, two = (SpeculationStatistics() for _ in range(3))
    one.count_round(drafted=2, accepted=2, output=3)
    two.count_round(drafted=4, accepted=1, output=2)
    total.add(one)
    total.add(two)
    message = total.to_message()
    assert list(message.accepted_per_position) == [2, 1, 0, 0]
    assert (message.rounds, message.draft_tokens, message.accepted_tokens) == (2, 6, 3)
    assert message.mean_output_tokens_per_round == 2.5
