"""Places for generations: how many, who is next, who is turned away."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from coordinator.admission import LATEST_RETRY_S, SOONEST_RETRY_S, Admission
from outrider.errors import Exhausted, Status


class Room:
    """Generations that run until they are told to end."""

    def __init__(self, *, running: int = 1, waiting: int = 8, wait_s: float = 60.0) -> None:
        self.admission = Admission(running=running, waiting=waiting, wait_s=wait_s)
        self.inside: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, caller: str, name: str) -> None:
        """A request comes and takes its place or its stand in line."""
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(caller, name))
        await settle()

    async def end(self, name: str) -> None:
        """The generation of that name ends."""
        self.ends[name].set()
        await settle()

    async def refusal(self, name: str) -> Exhausted:
        """What it was told."""
        with pytest.raises(Exhausted) as refused:
            await self.tasks[name]
        return refused.value

    async def _run(self, caller: str, name: str) -> None:
        async with self.admission.place(caller):
            self.inside.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.inside.remove(name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_run_than_may_and_the_next_follows_at_once() -> None:
    room = Room(running=2)
    for name in "abcd":
        await room.come(name, name)
    assert room.inside == ["a", "b"]
    assert (room.admission.running, room.admission.waiting) == (2, 2)
    await room.end("a")
    assert room.inside == ["b", "c"]
    for name in "bcd":
        await room.end(name)
    assert (room.admission.running, room.admission.waiting) == (0, 0)


async def test_the_caller_with_the_fewest_running_is_next() -> None:
    room = Room(running=3)
    for name in ("g1", "g2", "o1"):
        await room.come(name[0], name)
    for name in ("g3", "o2", "n1"):
        await room.come(name[0], name)
    await room.end("o1")
    assert room.inside == ["g1", "g2", "o2"], "g3 came first, but g has two running"
    await room.end("g1")
    assert room.inside == ["g2", "o2", "n1"]


async def test_among_equals_the_longest_waiting_is_next() -> None:
    room = Room()
    await room.come("x", "x1")
    for name in ("b1", "a1", "a2"):
        await room.come(name[0], name)
    await room.end("x1")
    assert room.inside == ["b1"]


async def test_a_full_line_refuses_with_a_time_to_come_again() -> None:
    room = Room(waiting=1)
    await room.come("a", "a1")
    await room.come("a", "a2")
    await room.come("a", "a3")
    refused = await room.refusal("a3")
    assert refused.status is Status.RESOURCE_EXHAUSTED
    assert SOONEST_RETRY_S <= (refused.retry_after_s or 0) <= LATEST_RETRY_S
    assert room.admission.refused == 1
    await room.end("a1")
    assert room.inside == ["a2"]


async def test_a_newcomer_pushes_out_the_newest_of_the_greediest() -> None:
    room = Room(waiting=3)
    for name in ("g0", "g1", "g2", "g3"):
        await room.come("g", name)
    await room.come("o", "o1")
    await room.refusal("g3")
    await room.come("o", "o2")
    await room.refusal("o2")
    assert room.admission.waiting == 3
    await room.end("g0")
    assert room.inside == ["g1"], "none of either runs, and g1 waits longest"


async def test_a_wait_has_an_end() -> None:
    room = Room(wait_s=0.01)
    await room.come("a", "a1")
    await room.come("b", "b1")
    await asyncio.sleep(0.05)
    assert "in time" in (await room.refusal("b1")).message
    assert room.admission.waiting == 0
    await room.end("a1")
    assert room.admission.running == 0


async def test_no_line_at_all() -> None:
    room = Room(waiting=0)
    await room.come("a", "a1")
    await room.come("b", "b1")
    await room.refusal("b1")


async def test_who_leaves_the_line_gives_up_its_turn() -> None:
    room = Room()
    for name in "abc":
        await room.come(name, name)
    room.tasks["b"].cancel()
    await settle()
    await room.end("a")
    assert room.inside == ["c"]


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_turn_that_comes_as_its_owner_leaves_goes_to_the_next(
    cancel_first: bool,
) -> None:
    room = Room()
    for name in "abc":
        await room.come(name, name)
    if cancel_first:
        room.tasks["b"].cancel()
        room.tasks["a"].cancel()
    else:
        # The first to end hands its place to b within the same turn of the loop.
        room.ends["a"].set()
        await asyncio.sleep(0)
        room.tasks["b"].cancel()
    await settle()
    assert room.inside == ["c"]
    await room.end("c")
    assert (room.admission.running, room.admission.waiting) == (0, 0)


async def test_a_generation_that_fails_gives_its_place_back() -> None:
    admission = Admission(running=1, waiting=0, wait_s=1.0)
    for _ in range(3):
        with suppress(ValueError):
            async with admission.place("a"):
                raise ValueError
    assert admission.running == 0


async def test_one_greedy_caller_leaves_the_other_its_half() -> None:
    """Of 4 places, with one caller always standing in line with as many as may."""
    admission = Admission(running=4, waiting=16, wait_s=60.0)
    served: Counter[str] = Counter()
    over = asyncio.Event()

    async def client(caller: str) -> None:
        while not over.is_set():
            try:
                async with admission.place(caller):
                    await asyncio.sleep(0.001)
                    served[caller] += 1
                    if served.total() == 400:
                        over.set()
            except Exhausted:
                await asyncio.sleep(0.001)

    tasks = [asyncio.create_task(client("greedy")) for _ in range(40)]
    tasks += [asyncio.create_task(client("modest")) for _ in range(3)]
    await over.wait()
    await asyncio.gather(*tasks)
    assert served["modest"] > 0.4 * served.total()
    assert admission.running == admission.waiting == 0


async def test_the_time_to_come_again_follows_the_rate_of_endings() -> None:
    """0.1 s for each: with 20 in line, about 2 s."""
    room = Room(waiting=20)
    await room.come("a", "0")
    for number in range(1, 21):
        await room.come("a", str(number))
    for number in range(4):
        await asyncio.sleep(0.1)
        await room.end(str(number))
    for number in range(21, 25):
        await room.come("a", str(number))
    await room.come("a", "too many")
    assert 1.0 <= ((await room.refusal("too many")).retry_after_s or 0.0) <= 10.0
    for task in room.tasks.values():
        task.cancel()
    await settle()
    assert room.admission.running == 0
