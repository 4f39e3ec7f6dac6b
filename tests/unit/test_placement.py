"""Where generations go: the same for everybody, in equal shares, and no further than it must."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from coordinator.breaker import Breaker
from coordinator.placement import LOAD_FACTOR, Placement, choose, placement_key
from coordinator.replica import Replica


@dataclass(eq=False)
class Standing:
    """As much of a replica as placement looks at."""

    address: str
    load: int = 0
    breaker: Breaker = field(default_factory=Breaker)

    @property
    def admits(self) -> bool:
        return self.breaker.admits


def pool(size: int) -> list[Replica]:
    return cast("list[Replica]", [Standing(f"10.0.0.{n}:7421") for n in range(size)])


def key(seed: int) -> bytes:
    random = Random(seed)
    return placement_key(b"scope", [random.randrange(1000) for _ in range(40)])


def anyone(_: Replica) -> bool:
    return True


def chosen(key: bytes, replicas: list[Replica]) -> Replica:
    replica = choose(key, replicas)
    assert replica is not None
    return replica


def test_prompts_that_begin_alike_go_together() -> None:
    first = list(range(64))
    assert placement_key(b"a", [*first, 1, 2]) == placement_key(b"a", [*first, 3])
    assert placement_key(b"a", first) != placement_key(b"b", first)
    assert placement_key(b"a", [1, 23]) != placement_key(b"a", [12, 3])


def test_all_coordinators_choose_alike() -> None:
    ours, theirs = pool(5), pool(5)
    Random(1).shuffle(theirs)
    for seed in range(50):
        assert chosen(key(seed), ours).address == chosen(key(seed), theirs).address


def test_each_gets_its_share() -> None:
    replicas = pool(3)
    shares = Counter(chosen(key(seed), replicas).address for seed in range(300))
    assert all(60 <= shares[replica.address] <= 141 for replica in replicas)


def test_one_that_goes_moves_its_own_share_only() -> None:
    replicas = pool(4)
    before = {seed: chosen(key(seed), replicas) for seed in range(200)}
    left = [replica for replica in replicas if replica is not replicas[0]]
    for seed, replica in before.items():
        if replica is not replicas[0]:
            assert chosen(key(seed), left) is replica


@given(size=st.integers(2, 6), count=st.integers(1, 80), seeds=st.integers(1, 4))
def test_no_load_passes_the_bound(size: int, count: int, seeds: int) -> None:
    """Even where all prompts are the same few."""
    replicas = pool(size)
    for n in range(count):
        one = cast("Standing", chosen(key(n % seeds), replicas))
        one.load += 1
        assert one.load <= LOAD_FACTOR * (n + 1) / size + 1


def test_one_at_rest_is_passed_over_until_it_may_be_tried() -> None:
    now = 0.0
    replicas = pool(2)
    placement = Placement(key(1), lambda: replicas, fits=anyone)
    first = placement.best()
    assert first is not None
    other = next(replica for replica in replicas if replica is not first)
    first.breaker = Breaker(lambda: now)
    first.breaker.failed()
    assert placement.best() is other
    now = 0.3
    assert placement.best() is first
    assert placement.best(besides=[first]) is other
    first.breaker.entered()
    assert placement.best() is other
    first.breaker.succeeded()
    assert placement.best() is first


def test_the_one_to_avoid_is_taken_where_there_is_no_other() -> None:
    (only,) = pool(1)
    placement = Placement(key(1), lambda: [only], fits=anyone)
    assert placement.best(besides=[only]) is only
    only.breaker.failed()
    assert placement.best() is None
    assert placement.any
    assert not Placement(key(1), list, fits=anyone).any
    assert not Placement(key(1), lambda: [only], fits=lambda _: False).any
