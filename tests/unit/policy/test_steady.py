"""The policy holds its course while nothing changes, and comes back when what it missed does."""

from __future__ import annotations

import pytest

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy import GenerationPolicy, PoolPolicy
from outrider.testing.simulated.policies import Alone
from outrider.testing.simulated.world import Outcome, Scene, World, rate

LEARNT = 200
"""Output tokens after which a generation should know."""


def changes_and_outcome(scene: Scene, *, bonus_free: bool) -> tuple[float, Outcome]:
    """Changes of the draft length in 1 000 tokens, the first ones of each generation left out."""
    world = World(scene)
    pool = PoolPolicy(clock=world.clock)
    terms = SpeculationTerms(max_draft_length=16, bonus_free=bonus_free)
    policies: list[GenerationPolicy] = []

    def generation() -> GenerationPolicy:
        policies.append(pool.generation(terms))
        return policies[-1]

    outcome = world.run(generation)
    changes = sum(one.offset > LEARNT for policy in policies for one in policy.changes)
    tokens = sum(max(0, one.tally.tokens - LEARNT) for one in outcome.generations)
    return 1000 * changes / tokens, outcome


@pytest.mark.parametrize("bonus_free", [True, False])
@pytest.mark.parametrize("round_trip_s", [0.001, 0.025])
@pytest.mark.parametrize("acceptance", [0.65, 0.8, 0.9])
def test_a_steady_acceptance_changes_little(
    acceptance: float, round_trip_s: float, bonus_free: bool
) -> None:
    scene = Scene(
        acceptance=acceptance,
        round_trip_s=round_trip_s,
        match=1.0 if bonus_free else 0.6,
        length=3000,
        seconds=60.0,
    )
    changes, outcome = changes_and_outcome(scene, bonus_free=bonus_free)
    assert changes <= 3.0
    assert outcome.rate > 1.3 * rate(scene, Alone)


@pytest.mark.parametrize("bonus_free", [True, False])
@pytest.mark.parametrize("off_s", [10.0, 120.0])
def test_it_is_back_soon_after_acceptance_is(bonus_free: bool, off_s: float) -> None:
    back = 10.0 + off_s

    def acceptance(seconds: float, place: int) -> float:
        return 0.02 if 10.0 < seconds < back else 0.9

    scene = Scene(
        acceptance=acceptance,
        round_trip_s=0.01,
        match=1.0 if bonus_free else 0.6,
        length=20_000,
        seconds=back + 30.0,
    )
    _, outcome = changes_and_outcome(scene, bonus_free=bonus_free)
    decided = outcome.generations[0].decided
    before = max(count for at, count in decided if at <= back)
    # Alone it would be 750 tokens, with drafts from the first moment more than 2 500.
    assert decided[-1][1] - before > 1400
