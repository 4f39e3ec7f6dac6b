"""Admission under any sequence of comings, endings and cancels."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.admission import Admission
from outrider.errors import Exhausted

COME = st.tuples(st.just("come"), st.integers(0, 3))
END = st.tuples(st.just("end"), st.integers(0, 40))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 40))
LOOK = st.tuples(st.just("look"), st.just(0))
ACTIONS = st.lists(st.one_of(COME, COME, END, CANCEL, LOOK), max_size=60)


class Story:
    """Plays actions and checks after each."""

    def __init__(self, *, running: int, waiting: int) -> None:
        self.most = running
        self.longest = waiting
        self.admission = Admission(running=running, waiting=waiting, wait_s=60.0)
        self.inside: Counter[int] = Counter()
        self.tasks: list[asyncio.Task[str]] = []
        self.ends: list[asyncio.Event] = []

    async def play(self, actions: list[tuple[str, int]]) -> None:
        for action, number in actions:
            match action:
                case "come":
                    end = asyncio.Event()
                    self.ends.append(end)
                    self.tasks.append(asyncio.create_task(self._run(number, end)))
                case "end" if number < len(self.ends):
                    self.ends[number].set()
                case "cancel" if number < len(self.tasks):
                    self.tasks[number].cancel()
                case "look":
                    await self._look()
        await self._look()
        for end in self.ends:
            end.set()
        outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert all(
            outcome == "served" or isinstance(outcome, Exhausted | asyncio.CancelledError)
            for outcome in outcomes
        )
        refused = sum(isinstance(outcome, Exhausted) for outcome in outcomes)
        assert self.admission.refused >= refused
        assert (self.admission.running, self.admission.waiting) == (0, 0)

    async def _run(self, caller: int, end: asyncio.Event) -> str:
        async with self.admission.place(str(caller)):
            self.inside[caller] += 1
            assert self.inside.total() <= self.most
            try:
                await end.wait()
            finally:
                self.inside[caller] -= 1
        return "served"

    async def _look(self) -> None:
        """Once all has settled no place is lost: none waits while one is free."""
        for _ in range(8):
            await asyncio.sleep(0)
        admission = self.admission
        assert admission.running == self.inside.total() <= self.most
        assert admission.waiting <= self.longest
        assert not admission.waiting or admission.running == self.most


@given(ACTIONS, st.integers(1, 4), st.integers(0, 6))
def test_places_are_never_lost_nor_given_twice(
    actions: list[tuple[str, int]], running: int, waiting: int
) -> None:
    async def run() -> None:
        await Story(running=running, waiting=waiting).play(actions)

    asyncio.run(run())
