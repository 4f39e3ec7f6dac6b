"""Drawn tokens say nothing of copied ones, nor the reverse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.draft_plan import DraftPlan, ForesightFacts, RoundFacts, SpeculationTerms
from coordinator.policy.experience import Experience
from coordinator.policy.measures import PoolMeasures
from coordinator.policy.outcomes import Outcome, of_copied, of_drawn
from coordinator.policy.standing import Standing

PLAN = DraftPlan(4)


def facts(copied: list[bool], *, accepted: int, run: int = 0) -> RoundFacts:
    return RoundFacts(
        drafted=len(copied),
        accepted=accepted,
        output=accepted + 1,
        verify_s=0.042,
        model_s=0.041,
        queue_s=0.0,
        copied=copied,
        run=run,
    )


class Learner:
    """One generation of a pool of its own."""

    def __init__(self, *, bonus_free: bool = True) -> None:
        measures = PoolMeasures(lambda: 100.0)
        terms = SpeculationTerms(max_draft_length=16, bonus_free=bonus_free)
        self.kind = measures.of(bonus_free=bonus_free)
        self.experience = Experience(terms, measures, self.kind)
        self.standing = Standing(measures.clock, on=True)

    def rounds(self, count: int, facts: RoundFacts) -> None:
        for _ in range(count):
            self.experience.round(facts, PLAN, None, self.standing)

    def foresaw(self, count: int, facts: ForesightFacts) -> None:
        for _ in range(count):
            self.experience.foresaw(facts, self.standing)

    @property
    def drawn(self) -> list[float]:
        return [self.experience.acceptance.hazard(place) for place in range(4)]

    @property
    def copied(self) -> list[float]:
        return [self.experience.copies.acceptance.hazard(place) for place in range(4)]


def test_places_of_drawn_tokens_are_those_of_the_round() -> None:
    one = facts([False, True, True, False], accepted=3)
    assert of_drawn(one) == [Outcome(0, True), Outcome(3, False)]
    assert of_copied(one) == [Outcome(0, True), Outcome(1, True)]


def test_places_of_copied_tokens_go_on_from_the_output() -> None:
    one = facts([True, True, False, True], accepted=4, run=7)
    assert of_copied(one) == [Outcome(7, True), Outcome(8, True), Outcome(0, True)]
    assert of_drawn(one) == [Outcome(2, True)]


def test_nothing_is_known_of_what_follows_a_rejected_token() -> None:
    one = facts([True, False, True, False], accepted=1)
    assert of_copied(one) == [Outcome(0, True)]
    assert of_drawn(one) == [Outcome(1, False)]


def test_rounds_that_say_nothing_of_copies_have_none() -> None:
    plain = RoundFacts(drafted=3, accepted=2, output=3, verify_s=1.0, model_s=1.0, queue_s=0.0)
    assert of_copied(plain) == []
    assert of_drawn(plain) == [Outcome(0, True), Outcome(1, True), Outcome(2, False)]


@pytest.mark.parametrize("accepted", [0, 4])
def test_copies_do_not_make_the_model_better_or_worse(accepted: int) -> None:
    learner = Learner()
    before, common = learner.drawn, learner.kind.belief.acceptance.overall
    learner.rounds(100, facts([True] * 4, accepted=accepted))
    learner.foresaw(100, ForesightFacts(matched=accepted > 0, copied=True, run=2))
    assert learner.drawn == before
    assert learner.kind.belief.acceptance.overall == common
    assert not learner.experience.changed


@pytest.mark.parametrize("accepted", [0, 4])
@pytest.mark.parametrize("bonus_free", [True, False])
def test_the_model_does_not_make_copies_better_or_worse(accepted: int, bonus_free: bool) -> None:
    learner = Learner(bonus_free=bonus_free)
    before = learner.copied
    learner.rounds(100, facts([False] * 4, accepted=accepted))
    learner.foresaw(100, ForesightFacts(matched=accepted > 0))
    assert learner.copied == before


def test_both_are_learnt_of_in_one_round() -> None:
    learner = Learner()
    learner.rounds(100, facts([False, True, True, True], accepted=1))
    assert learner.drawn[0] > 0.9
    assert learner.copied[0] < 0.1


@pytest.mark.parametrize("bonus_free", [True, False])
def test_copies_that_are_compared_count_with_any_verification(bonus_free: bool) -> None:
    """The target draws such a token as often as it would accept it."""
    learner = Learner(bonus_free=bonus_free)
    learner.foresaw(100, ForesightFacts(matched=False, copied=True, run=0))
    assert learner.copied[0] < 0.1


def test_a_wait_for_copies_alone_is_never_in_vain() -> None:
    learner = Learner()
    for copies_alone in (True, False):
        one = replace(facts([], accepted=0), wait_s=0.002, copies_alone=copies_alone)
        learner.rounds(1, one)
        assert learner.experience.waited_in_vain is not copies_alone
