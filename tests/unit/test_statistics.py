"""What speculation did: counts that add up."""

from __future__ import annotations

import pytest

from coordinator.proposal import Proposal
from coordinator.statistics import SpeculationStatistics
from coordinator.worker_time import WorkerTime
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
        round_s=0.060,
        wait_s=0.016,
        target=WorkerTime(model_s=0.041, queue_s=0.002),
        draft=WorkerTime(model_s=0.015, queue_s=0.0005),
    )
    message = statistics.to_message()
    assert message.verify_ms == pytest.approx(41.0)
    assert message.draft_wait_ms == pytest.approx(16.0)
    assert message.queue_ms == pytest.approx(2.5)
    assert message.draft_queue_ms == pytest.approx(0.5)
    assert message.hop_ms == pytest.approx(1.5)
    assert message.decode_ms == pytest.approx(60.0)


def test_hops_are_what_is_left_of_all_rounds_together() -> None:
    statistics = SpeculationStatistics()
    forward = WorkerTime(model_s=0.010)
    for round_s in (0.015, 0.006, 0.012):
        statistics.count_time(round_s=round_s, wait_s=0.0, target=forward, draft=WorkerTime())
    assert statistics.to_message().hop_ms == pytest.approx(3.0)
    statistics.count_time(round_s=0.001, wait_s=0.0, target=forward, draft=WorkerTime())
    assert statistics.to_message().hop_ms == 0.0


def test_drafting_behind_the_verification_is_in_no_hop() -> None:
    drafted = WorkerTime(model_s=0.030, queue_s=0.010)
    assert drafted.within(0.004) == WorkerTime(pytest.approx(0.003), pytest.approx(0.001))
    assert drafted.within(0.1) == drafted
    assert drafted.within(0.0) == WorkerTime().within(1.0) == WorkerTime()


def test_how_rounds_came_by_their_draft_tokens_is_counted() -> None:
    statistics = SpeculationStatistics()
    token = common_pb2.DraftToken()
    for proposal, invalid in (
        (Proposal([token]), False),
        (Proposal([token], wait_s=0.1), False),
        (Proposal([token], guess=True), False),
        (Proposal([token]), True),
        (Proposal(missed=True), False),
        (Proposal(), False),
    ):
        judged = 0 if invalid else len(proposal.tokens)
        statistics.count_round(drafted=judged, accepted=judged, output=judged + 1)
        statistics.count_proposal(proposal, invalid=invalid)
    message = statistics.to_message()
    assert list(message.rounds_by_draft_length) == [3, 3]
    assert (message.ready_rounds, message.foreseen_rounds) == (3, 1)
    assert (message.draft_missed_rounds, message.draft_invalid_rounds) == (1, 1)


def test_sums_over_generations_add_every_count() -> None:
    total, one, two = (SpeculationStatistics() for _ in range(3))
    one.count_round(drafted=2, accepted=2, output=3)
    two.count_round(drafted=4, accepted=1, output=2)
    total.add(one)
    total.add(two)
    message = total.to_message()
    assert list(message.accepted_per_position) == [2, 1, 0, 0]
    assert list(message.rounds_by_draft_length) == [0, 0, 1, 0, 1]
    assert (message.rounds, message.draft_tokens, message.accepted_tokens) == (2, 6, 3)
    assert message.mean_output_tokens_per_round == 2.5


def test_copied_tokens_are_part_of_the_draft_tokens() -> None:
    statistics = SpeculationStatistics()
    statistics.count_round(drafted=4, accepted=2, output=3)
    statistics.count_copies([False, True, True, False], accepted=2)
    statistics.count_round(drafted=2, accepted=2, output=3)
    statistics.count_copies([True, True], accepted=2)
    total = SpeculationStatistics(target_bytes=5)
    total.add(statistics)
    message = total.to_message()
    assert (message.draft_tokens, message.accepted_tokens) == (6, 4)
    assert (message.copied_tokens, message.accepted_copied_tokens) == (4, 3)
    assert (message.target_bytes, message.draft_bytes) == (5, 0)
