"""The policy is told figures that workers report: none of them may fail a request."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.draft_plan import (
    DraftFacts,
    ForesightFacts,
    RoundFacts,
    Situation,
    SpeculationTerms,
)
from coordinator.policy import PoolPolicy

MOST = 16
ROOM = 40
PATIENCE_S = 0.25

seconds = st.sampled_from([0.0, 1e-6, 0.001, 0.05, 10.0, 1e12])
prices = st.sampled_from([0.0, 1e-30, 0.01, 3.0, 1e38, -1.0, math.inf, -math.inf, math.nan])
rounds = st.builds(
    RoundFacts,
    drafted=st.integers(0, MOST),
    accepted=st.just(0),
    output=st.integers(1, MOST + 1),
    verify_s=seconds,
    model_s=seconds,
    queue_s=seconds,
    wait_s=seconds,
    batch_size=st.sampled_from([0, 1, 8, 2**32 - 1]),
    price=prices,
    in_run=st.booleans(),
    guess=st.booleans(),
    replayed=st.booleans(),
)
proposals = st.builds(
    DraftFacts,
    tokens=st.integers(0, MOST),
    steps=st.integers(0, MOST),
    model_s=seconds,
    queue_s=seconds,
    round_trip_s=st.one_of(st.none(), seconds),
)
foreseen = st.builds(ForesightFacts, matched=st.booleans())
terms = st.builds(
    SpeculationTerms,
    st.just(MOST),
    may_stop=st.booleans(),
    draft_length=st.sampled_from([None, 1, MOST]),
    draft_ahead=st.booleans(),
    branches=st.sampled_from([None, 0, 4, 64]),
    bonus_free=st.booleans(),
    patience_s=st.just(PATIENCE_S),
)


@settings(max_examples=60, deadline=None)
@given(terms, st.lists(st.tuples(rounds, proposals, foreseen), min_size=8, max_size=24))
def test_whatever_is_reported_there_is_a_plan(
    terms: SpeculationTerms, told: list[tuple[RoundFacts, DraftFacts, ForesightFacts]]
) -> None:
    now = 0.0
    pool = PoolPolicy(clock=lambda: now)
    policy = pool.generation(terms)
    for round_facts, draft_facts, foresight in told:
        now += 0.01
        plan = policy.plan(Situation(offset=0, room=ROOM, draft_ready=True, ready=0))
        assert 0 <= plan.draft_length <= MOST
        assert 0 <= plan.ahead <= ROOM - plan.draft_length
        assert plan.together <= plan.draft_length
        for tokens, next_in_s in ((0, 0.01), (plan.draft_length, 1e12), (1, math.inf)):
            assert 0.0 <= policy.patience_s(tokens=tokens, next_in_s=next_in_s) <= PATIENCE_S
        policy.drafted(draft_facts)
        policy.foresaw(foresight)
        policy.round(round_facts)
    pool.generation(terms)
    pool.status()
