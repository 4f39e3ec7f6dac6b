"""Turning speculation off and on: for a reason, and not back and forth."""

from __future__ import annotations

from random import Random

from coordinator.policy.audit import Audit
from coordinator.policy.probing import LARGEST_SHARE, LONGEST_S, SHORTEST_S, Probing
from coordinator.policy.standing import Standing


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_begins_for_a_clear_gain_and_ends_for_any_loss() -> None:
    standing = Standing(Clock(), on=True)
    assert not standing.judge(1.001)
    assert standing.judge(0.95)
    assert not standing.on
    assert not standing.judge(1.04)
    assert standing.judge(1.2)
    assert (standing.on, standing.changes) == (True, 2)


def test_noise_at_the_boundary_does_not_turn_it_back_and_forth() -> None:
    clock, chance = Clock(), Random(1)
    standing = Standing(clock, on=True)
    for _ in range(2000):
        clock.now += 0.1
        standing.judge(chance.gauss(1.0, 0.05))
    assert standing.changes <= 20


def test_however_it_swings_it_changes_once_in_ten_seconds_at_most() -> None:
    clock, chance = Clock(), Random(2)
    standing = Standing(clock, on=False)
    for _ in range(6000):
        clock.now += 0.05
        standing.judge(chance.gauss(1.1, 0.8))
    assert 20 <= standing.changes <= 300 / 10 + 2


def test_what_stops_paying_is_turned_off_at_once_however_often_it_changed() -> None:
    clock = Clock()
    standing = Standing(clock, on=True)
    assert standing.judge(0.5)
    assert standing.judge(2.0)
    assert standing.judge(0.5)
    assert not standing.judge(3.0)
    clock.now += 21.0
    assert standing.judge(3.0)


def test_others_who_would_wait_are_a_reason_against() -> None:
    standing = Standing(Clock(), on=False)
    assert not standing.judge(1.2, burden=0.2)
    assert standing.judge(1.3, burden=0.2)


def test_probes_become_rarer_and_never_take_more_than_their_share() -> None:
    clock = Clock()
    probing = Probing(clock)
    assert probing.due_in_s == 0.0
    waits = []
    for _ in range(8):
        probing.begin(cost_s=0.0)
        waits.append(probing.due_in_s)
        clock.now += probing.due_in_s
    assert waits[0] == SHORTEST_S
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_S
    probing.begin(cost_s=0.5)
    assert probing.due_in_s == 0.5 / LARGEST_SHARE
    probing.hurry()
    assert probing.due_in_s == 0.5 / LARGEST_SHARE


def test_after_a_change_the_next_probe_comes_soon() -> None:
    clock = Clock()
    probing = Probing(clock)
    for _ in range(6):
        probing.begin(cost_s=0.0)
        clock.now += probing.due_in_s
    probing.begin(cost_s=0.0)
    probing.hurry()
    assert probing.due_in_s == SHORTEST_S


def test_a_sign_that_it_pays_is_followed_at_once() -> None:
    clock = Clock()
    probing = Probing(clock)
    probing.begin(cost_s=1.0)
    assert probing.due_in_s > 100.0
    probing.at_once()
    assert probing.due_in_s == 0.0


def test_what_a_probe_spares_is_taken_off_what_it_costs() -> None:
    clock = Clock()
    probing = Probing(clock)
    probing.begin(cost_s=0.10)
    probing.earned(0.04)
    probing.hurry()
    assert probing.due_in_s == 0.06 / LARGEST_SHARE
    probing.earned(0.08)
    assert probing.due_in_s == 0.0


def test_experience_counts_more_than_promises() -> None:
    clock = Clock()
    audit = Audit(clock)
    assert audit.factor == 1.0
    for _ in range(200):
        audit.add(earned=1.2, promised=2.0)
    assert 0.6 <= audit.factor < 0.67
    disappointed = audit.factor
    clock.now += 60.0
    assert disappointed < audit.factor < 1.0
    clock.now -= 60.0
    for _ in range(300):
        audit.add(earned=2.0, promised=2.0)
    assert audit.factor > 0.93
