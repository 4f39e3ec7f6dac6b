"""What rounds earn: held against plain sums, and against what maximises them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.policy.economics import Chances, Costs, Economics

LENGTHS = range(1, 17)
COSTS = Costs(verify_s=0.042, row_s=0.0004, plain_s=0.04, token_s=0.004, round_trip_s=0.005)


def chances(acceptance: float, *, hit: float = 0.0, bonus_free: bool = True) -> Chances:
    survival = [acceptance**length for length in LENGTHS]
    match = acceptance if bonus_free else 0.6 * acceptance
    return Chances(survival=survival, match=match, hit=hit, bonus_free=bonus_free)


def synchronous_rate(acceptance: float, length: int, costs: Costs = COSTS) -> float:
    output = sum(acceptance**place for place in range(length + 1))
    drafting_s = costs.round_trip_s + length * costs.token_s
    return (output - costs.others_price * length) / (drafting_s + costs.round_s(length))


@pytest.mark.parametrize("acceptance", [0.05, 0.3, 0.6, 0.8, 0.95])
def test_synchronous_rounds_are_output_over_time(acceptance: float) -> None:
    choice = Economics(COSTS, chances(acceptance), ahead=False).best(LENGTHS)
    rates = {length: synchronous_rate(acceptance, length) for length in LENGTHS}
    assert choice.rate == pytest.approx(max(rates.values()))
    assert choice.length == max(rates, key=lambda length: rates[length])
    assert (choice.plain, choice.lead) == (0, 0.0)


@pytest.mark.parametrize("acceptance", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("round_trip_s", [0.0, 0.025, 0.1])
def test_going_on_while_the_target_verifies_never_earns_less(
    acceptance: float, round_trip_s: float
) -> None:
    costs = replace(COSTS, round_trip_s=round_trip_s)
    ahead = Economics(costs, chances(acceptance), ahead=True).best(LENGTHS)
    alone = Economics(costs, chances(acceptance), ahead=False).best(LENGTHS)
    branching = Economics(costs, chances(acceptance, hit=0.3), ahead=True).best(LENGTHS)
    assert alone.rate <= ahead.rate <= branching.rate


def test_an_ideal_draft_is_limited_by_its_own_speed_alone() -> None:
    choice = Economics(COSTS, chances(0.999999), ahead=True).best(LENGTHS)
    # A ready round of k tokens gives k + 1 and takes as long as it takes to draft them.
    assert choice.rate == pytest.approx(1 / COSTS.token_s, rel=0.15)


def test_tokens_are_decoded_alone_while_a_distant_draft_is_at_work() -> None:
    near = Economics(COSTS, chances(0.8), ahead=True).best(LENGTHS)
    far = Economics(replace(COSTS, round_trip_s=0.1), chances(0.8), ahead=True).best(LENGTHS)
    assert near.plain == 0
    assert far.plain >= 2
    assert far.lead > near.lead


def test_where_nothing_is_accepted_it_never_pays() -> None:
    for round_trip_s in (0.0, 0.2):
        costs = replace(COSTS, round_trip_s=round_trip_s)
        choice = Economics(costs, chances(0.01), ahead=True).best(LENGTHS)
        assert choice.rate < 1 / costs.plain_s


@pytest.mark.parametrize("generations", [8, 64])
@pytest.mark.parametrize("row_s", [0.0001, 0.0002, 0.0005])
def test_the_price_leads_all_to_the_length_that_is_best_for_all(
    generations: int, row_s: float
) -> None:
    """Each of many equal generations goes by the price at the present length of all others."""
    acceptance, base_s = 0.5, 0.04

    def output(length: int) -> float:
        return sum(acceptance**place for place in range(length + 1))

    def step_s(length: int) -> float:
        return base_s + row_s * generations * (length + 1)

    common = range(9)
    best = max(output(length) / step_s(length) for length in common)
    length = 4
    for _ in range(30):
        price = generations * output(length) * row_s / step_s(length)
        costs = Costs(
            verify_s=step_s(length) - row_s * length,
            row_s=row_s,
            plain_s=step_s(length) - row_s * length,
            token_s=0.0,
            round_trip_s=0.0,
            others_price=price * (generations - 1) / generations,
        )
        choice = Economics(costs, chances(acceptance), ahead=False).best(LENGTHS)
        wanted = choice.length if choice.rate > 1 / costs.plain_s else 0
        length += (wanted > length) - (wanted < length)
    assert output(length) / step_s(length) > 0.95 * best


def test_what_is_hardly_better_changes_nothing() -> None:
    economics = Economics(COSTS, chances(0.8), ahead=True)
    best = economics.best(LENGTHS)
    near = replace(best, length=best.length - 1)
    assert economics.best(LENGTHS, kept=near).length == near.length
    assert economics.best(LENGTHS, kept=replace(best, length=1, first=1)).length == best.length


def test_a_token_that_lies_ready_takes_the_place_of_a_bonus() -> None:
    free = Economics(COSTS, chances(0.8), ahead=True).best(LENGTHS)
    drawn = Economics(COSTS, chances(0.8, bonus_free=False), ahead=True).best(LENGTHS)
    assert 1 / COSTS.plain_s < drawn.rate < free.rate
