"""How likely copies and drawn tokens are believed to be, and what changes that."""

from __future__ import annotations

import pytest

from draft_service.chances import (
    BEFORE,
    LENGTHS,
    Chances,
    Source,
    Tally,
    WorkerChances,
    grade_of,
)

OWN, OTHER = Source.GENERATION, Source.RECENT


@pytest.mark.parametrize(("source", "greedy"), BEFORE)
def test_before_anything_is_known_it_is_what_was_measured(source: Source, greedy: bool) -> None:
    chances, before = Chances(WorkerChances(greedy=greedy)), BEFORE[source, greedy]
    assert [chances.copied(source, length) for length in LENGTHS] == pytest.approx(before)
    assert list(before) == sorted(before)


def test_lengths_have_grades() -> None:
    assert [grade_of(length) for length in (0, 1, 2, 6, 7, 8, 500)] == [-1, 0, 1, 5, 5, 6, 8]


def test_what_one_source_shows_says_nothing_of_another() -> None:
    chances = Chances(WorkerChances(greedy=False))
    for _ in range(100):
        chances.saw_copied(OWN, 3, hit=True)
    assert chances.copied(OWN, 3) > 0.9
    assert chances.copied(OTHER, 3) == pytest.approx(BEFORE[OTHER, False][2])
    assert chances.copied(OWN, 4) == pytest.approx(BEFORE[OWN, False][3])


def test_a_generation_begins_with_what_others_showed_and_goes_its_own_way() -> None:
    worker = WorkerChances(greedy=False)
    first = Chances(worker)
    for _ in range(500):
        first.saw_copied(OWN, 3, hit=False)
        first.saw_drawn(0, hit=True)
    second = Chances(worker)
    assert second.copied(OWN, 3) < 0.1
    assert second.drawn(0) > 0.9
    for _ in range(50):
        second.saw_copied(OWN, 3, hit=True)
        second.saw_drawn(0, hit=False)
    assert second.copied(OWN, 3) > 0.7
    assert second.drawn(0) < 0.2


def test_what_is_drawn_beside_a_match_is_believed_to_be_as_elsewhere_until_it_is_seen() -> None:
    chances = Chances(WorkerChances(greedy=False))
    for _ in range(100):
        chances.saw_drawn(0, hit=True)
    assert chances.drawn(12) > 0.8
    for _ in range(30):
        chances.saw_drawn(12, hit=False)
    assert chances.drawn(12) < 0.35
    assert chances.drawn(0) > chances.drawn(12)


def test_older_outcomes_fade() -> None:
    tally = Tally()
    for hit in [True] * 1000 + [False] * 64:
        tally.add(hit=hit, most=64.0)
    assert tally.trials == pytest.approx(64.0)
    assert tally.chance(before=0.5, weight=0.0) == pytest.approx(1 / 2.718, abs=0.02)
