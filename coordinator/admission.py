"""Who may run: a bounded number at once, a bounded line behind them, fair between callers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from outrider.errors import Exhausted

REMEMBERED_ENDINGS = 64
SOONEST_RETRY_S = 0.5
LATEST_RETRY_S = 30.0
UNKNOWN_RETRY_S = 1.0


@dataclass(slots=True, eq=False)
class _Waiter:
    """One that stands in line. The future's result says that its place is free."""

    caller: str
    number: int
    turn: asyncio.Future[None]


def _number(waiter: _Waiter) -> int:
    return waiter.number


class Admission:
    """Places for generations.

    The next to run is the waiting one whose caller has the fewest running, the longest waiting
    among equals. When the line is full, a newcomer takes the place of the newest of the caller who
    has most waiting, if that caller has more waiting than its own would be. It belongs to one event
    loop.
    """

    def __init__(self, *, running: int, waiting: int, wait_s: float) -> None:
        """`running`: most at once; `waiting`: most in line; `wait_s`: longest wait in line."""
        self._most_running = running
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._running: Counter[str] = Counter()
        self._line: list[_Waiter] = []
        self._arrivals = 0
        self._endings: deque[float] = deque(maxlen=REMEMBERED_ENDINGS)
        self._refused = 0

    @property
    def running(self) -> int:
        """How many have a place."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._standing())

    @property
    def refused(self) -> int:
        """How many were turned away so far."""
        return self._refused

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncGenerator[None]:
        """A place for one generation of `caller`, held until the block ends.

        Raises Exhausted, with the time after which to come again, when the line is full or the wait
        was too long.
        """
        await self._enter(caller)
        try:
            yield
        finally:
            self._endings.append(time.monotonic())
            self._leave(caller)

    async def _enter(self, caller: str) -> None:
        """Returns with a place that `_running` counts."""
        if self.running < self._most_running:
            # Whoever waits does so because all places are taken.
            self._running[caller] += 1
            return
        self._make_room(caller)
        self._arrivals += 1
        waiter = _Waiter(caller, self._arrivals, asyncio.get_running_loop().create_future())
        self._line.append(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiter.turn
        except TimeoutError:
            self._withdraw(waiter)
            raise self._refusal("no generation ended in time") from None
        except BaseException:
            self._withdraw(waiter)
            raise

    def _make_room(self, caller: str) -> None:
        """Sees to it that the line has room for one more. Raises Exhausted."""
        standing = self._standing()
        if len(standing) < self._most_waiting:
            return
        lengths = Counter(waiter.caller for waiter in standing)
        greediest, most = max(lengths.items(), key=lambda item: item[1], default=("", 0))
        if most <= lengths[caller] + 1:
            raise self._refusal("the line is full")
        newest = max((one for one in standing if one.caller == greediest), key=_number)
        self._line.remove(newest)
        newest.turn.set_exception(self._refusal("the line is full, and others have fewer in it"))

    def _standing(self) -> list[_Waiter]:
        """Those in line whose task has not been cancelled this very moment."""
        return [waiter for waiter in self._line if not waiter.turn.done()]

    def _leave(self, caller: str) -> None:
        """Gives a place back, or on to the next in line."""
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        if standing := self._standing():
            following = min(standing, key=lambda one: (self._running[one.caller], one.number))
            self._line.remove(following)
            self._running[following.caller] += 1
            following.turn.set_result(None)

    def _withdraw(self, waiter: _Waiter) -> None:
        """Takes back whatever a waiter has that will not run: its stand in line, or its place."""
        if waiter in self._line:
            self._line.remove(waiter)
        elif waiter.turn.done() and not waiter.turn.cancelled() and not waiter.turn.exception():
            self._leave(waiter.caller)

    def _refusal(self, why: str) -> Exhausted:
        self._refused += 1
        return Exhausted(
            f"{self.running} generations are running, the most here; {why}",
            retry_after_s=self._retry_after_s(),
        )

    def _retry_after_s(self) -> float:
        """When those in line will have had their turn, by how fast generations ended of late."""
        if len(self._endings) < 2:
            return UNKNOWN_RETRY_S
        span_s = max(time.monotonic() - self._endings[0], 1e-3)
        expected_s = (self.waiting + 1) * span_s / len(self._endings)
        return min(max(expected_s, SOONEST_RETRY_S), LATEST_RETRY_S)
