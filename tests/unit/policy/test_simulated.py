"""The policy against simulated services: it never loses to plain decoding, and gains elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy import GenerationPolicy, PoolPolicy
from outrider.testing.simulated.policies import Alone, Policy, fixed_terms
from outrider.testing.simulated.world import Outcome, Scene, World, rate

AUTO = SpeculationTerms(max_draft_length=16, bonus_free=True)
DRAWN = replace(AUTO, bonus_free=False)
LOWEST = 0.97
ACCEPTANCES = (0.05, 0.3, 0.6, 0.8, 0.95)
ROUND_TRIPS_S = (0.0, 0.005, 0.025, 0.1, 0.2)


def users(world: World, terms: SpeculationTerms) -> Callable[[], GenerationPolicy]:
    """Generations of one pool."""
    pool = PoolPolicy(clock=world.clock)
    return lambda: pool.generation(terms)


def run(scene: Scene, terms: SpeculationTerms) -> Outcome:
    world = World(scene)
    return world.run(users(world, terms))


def against_plain(scene: Scene, terms: SpeculationTerms = AUTO) -> float:
    return run(scene, terms).rate / rate(scene, Alone)


def best_synchronous(scene: Scene, lengths: tuple[int, ...]) -> float:
    return max(run(scene, fixed_terms(length)).rate for length in lengths)


def rate_between(outcome: Outcome, begin: float, end: float) -> float:
    """Output tokens in a second of that time."""
    found = 0
    for generation in outcome.generations:
        before = 0
        for at, count in generation.decided:
            found += count - before if begin <= at < end else 0
            before = count
    return found / (end - begin)


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


@pytest.mark.parametrize("target_s", [0.02, 0.05])
def test_the_guard_holds_for_one_user(target_s: float) -> None:
    ratios = [
        against_plain(
            Scene(acceptance=acceptance, round_trip_s=round_trip_s, target_s=target_s, seconds=10.0)
        )
        for acceptance in ACCEPTANCES
        for round_trip_s in ROUND_TRIPS_S
    ]
    assert min(ratios) >= LOWEST
    assert geometric_mean(ratios) > 1.2


@pytest.mark.parametrize("acceptance", [0.05, 0.95])
@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_the_guard_holds_for_eight_users(acceptance: float, round_trip_s: float) -> None:
    scene = Scene(acceptance=acceptance, round_trip_s=round_trip_s, concurrency=8, seconds=10.0)
    assert against_plain(scene) >= LOWEST


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8, 32])
@pytest.mark.parametrize("target_s", [0.02, 0.04])
def test_the_guard_holds_everywhere(concurrency: int, target_s: float) -> None:
    ratios = [
        against_plain(
            Scene(
                acceptance=acceptance,
                round_trip_s=round_trip_s,
                concurrency=concurrency,
                target_s=target_s,
                seconds=20.0,
            )
        )
        for acceptance in ACCEPTANCES
        for round_trip_s in ROUND_TRIPS_S
    ]
    assert min(ratios) >= LOWEST
    assert geometric_mean(ratios) >= 1.05


def test_the_guard_holds_for_draws_that_a_bonus_would_cut_off() -> None:
    ratios = [
        against_plain(
            Scene(acceptance=acceptance, round_trip_s=round_trip_s, match=0.6, seconds=20.0), DRAWN
        )
        for acceptance in (0.05, 0.6, 0.95)
        for round_trip_s in (0.0, 0.1)
    ]
    assert min(ratios) >= LOWEST
    assert geometric_mean(ratios) > 1.2


def test_a_distant_draft_costs_less_than_half_of_what_it_costs_in_step() -> None:
    def time_per_token(round_trip_s: float, *, ahead: bool) -> float:
        scene = Scene(acceptance=0.8, round_trip_s=round_trip_s, seconds=60.0)
        terms = replace(AUTO, may_stop=False)
        return 1 / (run(scene, terms).rate if ahead else best_synchronous(scene, (6, 8)))

    near = {ahead: time_per_token(0.0, ahead=ahead) for ahead in (True, False)}
    far = {ahead: time_per_token(0.05, ahead=ahead) for ahead in (True, False)}
    assert near[False] / near[True] > 1.05
    assert far[False] / far[True] > 1.2
    assert far[True] - near[True] < 0.6 * (far[False] - near[False])


def test_acceptance_that_comes_and_goes_is_followed() -> None:
    def acceptance(seconds: float, place: int) -> float:
        return 0.02 if 20.0 < seconds < 60.0 else 0.9

    scene = Scene(acceptance=acceptance, seconds=100.0)
    plain = rate(scene, Alone)
    outcome = run(scene, AUTO)

    assert rate_between(outcome, 2, 20) > 2.0 * plain
    assert rate_between(outcome, 20, 60) > 0.98 * plain
    assert rate_between(outcome, 70, 100) > 2.0 * plain


@pytest.mark.parametrize("row_s", [pytest.param(0.0004, marks=pytest.mark.slow), 0.0002])
def test_64_users_together_come_near_the_best_common_length(row_s: float) -> None:
    scene = Scene(
        acceptance=0.5,
        concurrency=64,
        target_row_s=row_s,
        draft_s=0.002,
        draft_row_s=0.00002,
        seconds=9.0,
    )

    def steady(policy: Callable[[World], Callable[[], Policy]]) -> float:
        """Without the first seconds, in which all begin at once and nothing is known."""
        world = World(scene)
        return rate_between(world.run(policy(world)), 3.0, scene.seconds)

    common = max(
        steady(lambda world: users(world, fixed_terms(length, draft_ahead=True)))  # noqa: B023
        for length in (1, 2, 3)
    )
    best = max(common, steady(lambda world: Alone))
    assert steady(lambda world: users(world, AUTO)) > 0.95 * best


@pytest.mark.parametrize("acceptance", [0.1, 0.7])
def test_models_that_slow_each_other_down_take_turns(acceptance: float) -> None:
    scene = Scene(
        acceptance=acceptance,
        slowdown=2.3,
        target_s=0.054,
        draft_s=0.0145,
        hop_s=0.0027,
        seconds=60.0,
    )
    plain = rate(scene, Alone)
    ratio = run(scene, AUTO).rate / plain
    assert ratio >= LOWEST
    if acceptance > 0.5:
        assert ratio > 0.9 * best_synchronous(scene, (1, 2, 3)) / plain > 1.1


@pytest.mark.parametrize("concurrency", [1, 32])
@pytest.mark.parametrize("seed", range(4))
def test_one_generation_is_enough_to_see_that_drafts_have_become_useless(
    concurrency: int, seed: int
) -> None:
    world = World(Scene(acceptance=0.95, match=0.65, concurrency=concurrency, length=96, seed=seed))
    policy = users(world, DRAWN)
    world.run(policy, seconds=4.0)
    world.change(acceptance=0.05, round_trip_s=0.2, concurrency=1)
    later = world.run(policy, seconds=15.0).generations[1:]
    drafted = sum(one.tally.drafted_rounds for one in later)
    assert drafted <= 0.01 * sum(one.tally.rounds for one in later)


def stretches(*, gap: int, length: int, chance: float) -> Callable[[int], float | None]:
    """Places of an output: some in which there is nothing to copy, and then some in which there
    is, both as long as stated on average."""
    random = Random(1)
    places: list[float | None] = []
    while len(places) < 4096:
        for kind, mean in ((None, gap), (chance, length)):
            places.extend([kind] * (1 + int(random.expovariate(1.0 / mean))))
    return lambda place: places[place]


def nothing(place: int) -> None:
    """There is nothing to copy."""


EDITING = stretches(gap=5, length=30, chance=0.97)
MISLEADING = stretches(gap=4, length=2, chance=0.1)


@pytest.mark.parametrize("terms", [AUTO, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("round_trip_s", [0.0, 0.025])
def test_a_draft_without_a_model_earns_by_copies_alone(
    terms: SpeculationTerms, round_trip_s: float
) -> None:
    scene = Scene(copies=EDITING, draws=False, round_trip_s=round_trip_s, seconds=10.0)
    outcome = run(scene, terms)
    assert outcome.rate > 2.0 * rate(scene, Alone)
    assert outcome.tally.tokens > 3.0 * outcome.tally.rounds
    assert outcome.tally.accepted_copied == outcome.tally.accepted


@pytest.mark.parametrize("copies", [nothing, MISLEADING], ids=["none", "misleading"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_draft_without_a_model_costs_nothing_where_there_is_little_to_copy(
    copies: Callable[[int], float | None], concurrency: int
) -> None:
    ratios = [
        against_plain(
            Scene(
                copies=copies,
                draws=False,
                round_trip_s=round_trip_s,
                target_s=target_s,
                concurrency=concurrency,
                seconds=10.0,
            )
        )
        for round_trip_s in (0.0, 0.01, 0.1)
        for target_s in (0.01, 0.04)
    ]
    assert min(ratios) >= LOWEST
    assert geometric_mean(ratios) > 0.985


@pytest.mark.parametrize(("acceptance", "round_trip_s"), [(0.7, 0.005), (0.05, 0.025)])
def test_copies_are_earned_beside_what_the_model_earns_or_does_not(
    acceptance: float, round_trip_s: float
) -> None:
    scene = Scene(acceptance=acceptance, round_trip_s=round_trip_s, seconds=10.0)
    without = run(scene, AUTO).rate
    assert run(replace(scene, copies=EDITING), AUTO).rate > 1.5 * without
    assert run(replace(scene, copies=nothing), AUTO).rate > 0.97 * without


def test_good_copies_do_not_keep_a_useless_model_at_work() -> None:
    scene = Scene(acceptance=0.02, copies=EDITING, round_trip_s=0.01, seconds=20.0)
    tally = run(scene, AUTO).tally
    assert tally.accepted_copied > 1000
    assert tally.draft_tokens - tally.copied < 0.01 * tally.tokens
