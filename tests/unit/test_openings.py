"""How many streams are opened at a time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from grpc import aio

from coordinator import openings
from coordinator.openings import Openings


class Call:
    """One whose server takes its time."""

    def __init__(self) -> None:
        self.taken_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def initial_metadata(self) -> None:
        await self.taken_up


def opened(places: Openings) -> Call:
    call = Call()
    places.opened(cast("aio.StreamStreamCall[Any, Any]", call))
    return call


async def test_no_more_than_so_many_are_under_way() -> None:
    places, running, most = Openings(3), 0, 0

    async def one() -> None:
        nonlocal running, most
        await places.take()
        running += 1
        most = max(most, running)
        call = opened(places)
        await asyncio.sleep(0.001)
        running -= 1
        call.taken_up.set_result(None)

    await asyncio.gather(*(one() for _ in range(30)))
    assert most == 3
    await asyncio.sleep(0.01)
    assert [places.take_now() for _ in range(4)] == [True, True, True, False]


async def test_a_place_comes_free_when_a_call_fails_is_cancelled_or_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openings, "LONGEST_OPENING_S", 0.01)
    places = Openings(1)
    for end in (
        lambda call: call.taken_up.cancel(),
        lambda call: call.taken_up.set_exception(asyncio.InvalidStateError()),
        lambda call: None,
    ):
        await places.take()
        end(opened(places))
        async with asyncio.timeout(60):
            await places.take()
        places.give_back()


async def test_one_who_waits_may_leave_and_loses_nothing() -> None:
    places = Openings(1)
    await places.take()
    leaving = asyncio.create_task(places.take())
    staying = asyncio.create_task(places.take())
    await asyncio.sleep(0)
    assert not places.take_now()
    # It is given the place in the very moment in which it leaves.
    places.give_back()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    async with asyncio.timeout(60):
        await staying
