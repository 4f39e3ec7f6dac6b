"""What is learnt of copied tokens, and how many of them pay."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.draft_plan import Copying, RoundFacts, Situation, SpeculationTerms
from coordinator.policy import PoolPolicy
from coordinator.policy.copies import LEAST, STATED_WORTH, Copies
from coordinator.policy.economics import Costs
from coordinator.policy.outcomes import Outcome

RATE = 25.0


def costs(*, row_s: float = 0.0004, others_price: float = 0.0) -> Costs:
    return Costs(
        verify_s=0.041,
        row_s=row_s,
        plain_s=0.040,
        token_s=0.004,
        round_trip_s=0.001,
        others_price=others_price,
    )


def seen(hazards: dict[int, float], *, rounds: int = 400, common: Copies | None = None) -> Copies:
    """After runs of copied tokens that are right as often as stated, by their place."""
    copies, chance = Copies(common), Random(1)
    for _ in range(rounds):
        outcomes = []
        for place in range(8):
            outcomes.append(Outcome(place, chance.random() < hazards.get(place, 0.9)))
            if not outcomes[-1].accepted:
                break
        copies.judged(outcomes)
    return copies


def paying(copies: Copies, *, run: int = 0, reach: float = 1.0, **prices: float) -> int:
    return copies.paying(costs(**prices), rate=RATE, run=run, reach=reach, limit=64)


def test_it_begins_with_hope() -> None:
    assert paying(Copies()) >= 8
    assert Copies().worth == STATED_WORTH


def test_good_copies_go_far_and_bad_ones_are_tried_by_few() -> None:
    good, bad = seen(dict.fromkeys(range(8), 0.98)), seen(dict.fromkeys(range(8), 0.02))
    assert paying(good) > 24
    assert paying(bad) == LEAST


def test_what_has_been_right_for_long_goes_further() -> None:
    copies = seen({0: 0.3, 1: 0.5, 2: 0.7})
    assert copies.acceptance.hazard(0) == pytest.approx(0.3, abs=0.15)
    assert paying(copies) < paying(copies, run=3)
    assert copies.expected(4) < copies.expected(4, run=3)


def test_a_price_shortens_it() -> None:
    copies = seen(dict.fromkeys(range(8), 0.7))
    alone, dear = paying(copies), paying(copies, others_price=0.3)
    assert paying(copies, row_s=0.010) < alone
    assert LEAST < dear < alone


def test_behind_drawn_tokens_fewer_pay_or_none() -> None:
    copies = seen(dict.fromkeys(range(8), 0.7))
    assert 0 < paying(copies, reach=0.3) < paying(copies)
    assert paying(copies, reach=0.01) == 0


def test_no_more_than_there_may_be() -> None:
    assert Copies().paying(costs(), rate=RATE, run=0, reach=1.0, limit=1) == 1
    assert Copies().paying(costs(), rate=RATE, run=0, reach=1.0, limit=0) == 0


def test_tokens_that_were_only_compared_count_as_judged_ones_do() -> None:
    judged, compared = Copies(), Copies()
    for right in (True, False, False, True, False) * 20:
        judged.judged([Outcome(0, right)])
        compared.compared(matched=right, run=0)
    assert judged.acceptance.hazard(0) == compared.acceptance.hazard(0)
    late = Copies()
    for _ in range(50):
        late.compared(matched=False, run=None)
    assert late.acceptance.hazard(0) < 0.2


def test_a_new_generation_begins_with_what_others_learnt() -> None:
    common = Copies()
    one = Copies(common)
    for _ in range(60):
        one.judged([Outcome(0, False)])
        one.offered(3)
    other = Copies(common)
    assert other.acceptance.hazard(0) == pytest.approx(common.acceptance.hazard(0))
    assert common.acceptance.hazard(0) < 0.1
    assert other.worth == pytest.approx(common.worth)
    assert other.worth < STATED_WORTH


def test_an_offer_is_worth_what_is_expected_of_it() -> None:
    copies = Copies()
    for count in (0, 0, 0, 4) * 20:
        copies.offered(count)
    assert copies.worth == pytest.approx(copies.expected(4) / 4, rel=0.2)
    for _ in range(400):
        copies.offered(0)
    assert copies.worth < 0.1


def test_a_run_without_end_takes_no_more_room() -> None:
    copies = Copies()
    for place in range(1000):
        copies.compared(matched=True, run=place)
    assert len(copies.acceptance.survival(4)) == 4
    assert copies.acceptance.hazard(10**6) > 0.9


def test_of_a_pool_that_only_copies_it_is_told_what_became_of_that() -> None:
    pool = PoolPolicy(clock=lambda: 0.0)
    policy = pool.generation(SpeculationTerms(max_draft_length=16))
    situation = Situation(offset=0, room=90, draft_ready=True, copying=Copying(False, ready=4))
    copied = RoundFacts(
        drafted=4,
        accepted=4,
        output=5,
        verify_s=0.05,
        model_s=0.04,
        queue_s=0.0,
        copied=(True,) * 4,
        copies_alone=True,
    )
    policy.plan(situation)
    assert pool.status() is None
    for _ in range(30):
        policy.plan(situation)
        policy.round(copied)
    status = pool.status()
    assert status is not None
    assert (status.reason, status.draft_length, list(status.survival)) == ("COPIES", 0, [])
    assert status.copied_survival[0] > 0.9
    assert status.plain_step_ms > 0.0
