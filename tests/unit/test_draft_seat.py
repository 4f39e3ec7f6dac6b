"""Which draft a generation goes to."""

from __future__ import annotations

import pytest

from coordinator.draft_seat import DraftSeat
from coordinator.replica import Replica
from outrider.testing.standing import placed_on, standing_replica


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def pair() -> tuple[Replica, Replica]:
    return (
        standing_replica("127.0.0.1:1", replica_id="one"),
        standing_replica("127.0.0.1:2", replica_id="two"),
    )


async def test_another_is_taken_at_once_and_the_same_one_after_a_pause(
    pair: tuple[Replica, Replica],
) -> None:
    clock = Clock()
    seat = DraftSeat(placed_on(*pair), clock=clock)
    first = seat.take()
    assert first is not None
    seat.fail(rest=False)
    second = seat.take()
    assert second is not None
    assert second is not first
    assert seat.moves == 1
    alone = DraftSeat(placed_on(first), clock=clock)
    assert alone.take() is first
    alone.fail(rest=False)
    assert alone.take() is None
    assert not alone.ready
    clock.now += 0.3
    assert alone.take() is first
    assert alone.moves == 0


async def test_each_counts_its_generations(pair: tuple[Replica, Replica]) -> None:
    seats = [DraftSeat(placed_on(*pair), clock=Clock()) for _ in range(6)]
    for seat in seats:
        seat.take()
    assert sum(one.generations for one in pair) == 6
    assert min(one.generations for one in pair) >= 2
    for seat in seats[:3]:
        seat.leave()
    for seat in seats[3:]:
        seat.fail(rest=True)
    assert [one.generations for one in pair] == [0, 0]
    assert sum(one.failures for one in pair) == 3
    assert sum(one.placed for one in pair) == 6


async def test_a_draft_that_is_to_be_left(pair: tuple[Replica, Replica]) -> None:
    seat = DraftSeat(placed_on(*pair), clock=Clock())
    replica = seat.take()
    assert replica is not None
    assert not seat.is_to_be_left
    replica.listed = False
    assert seat.is_to_be_left
    replica.listed = True
    for _ in range(100):
        replica.judged(0.1, accepted=True)
    assert seat.is_to_be_left
    assert not seat.believed
    seat.leave()
    again = DraftSeat(placed_on(replica), clock=Clock())
    assert again.take() is replica
    assert not again.trusted
    assert again.believed


async def test_waits_in_vain_of_all_generations_count_together(
    pair: tuple[Replica, Replica],
) -> None:
    seats = [DraftSeat(placed_on(*pair), clock=Clock()) for _ in range(2)]
    first = seats[0].take()
    assert first is not None
    seats[1].replica = first
    assert not seats[0].missed()
    seats[1].served(in_time=True)
    assert not seats[0].missed()
    assert seats[1].missed()
    pair[0].listed = pair[1].listed = False
    first.listed = True
    assert not seats[0].missed(), "there is nobody else"
