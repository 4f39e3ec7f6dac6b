"""What may happen to a worker, and someone who makes it happen at random moments."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from outrider.testing.fleet import Fleet, Replica

SLOW_S = 0.5
"""Round trip of a slow worker."""


class Fault(StrEnum):
    """A kind of trouble."""

    KILL = "kill"
    """kill -9, and a restart."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT."""
    BLACKHOLE = "blackhole"
    """Packets are dropped, those of new connections included."""
    SLOW = "slow"
    """Half a second in every round trip."""
    CUT = "cut"
    """Connections are reset."""
    TRUNCATE = "truncate"
    """Connections end within a message."""


async def begin(fault: Fault, worker: Replica, rolls: random.Random) -> None:
    """Makes it happen."""
    match fault:
        case Fault.KILL:
            await asyncio.to_thread(worker.process.kill)
        case Fault.FREEZE:
            worker.process.freeze()
        case Fault.BLACKHOLE:
            worker.way.blackhole(True)
            await worker.way.deafen(True)
        case Fault.SLOW:
            worker.way.round_trip_s = SLOW_S
        case Fault.CUT:
            worker.way.cut()
        case Fault.TRUNCATE:
            worker.way.truncate(rolls.randrange(300))


async def end(fault: Fault, worker: Replica) -> None:
    """Makes all well again, as far as the worker is concerned."""
    match fault:
        case Fault.KILL:
            await asyncio.to_thread(worker.process.start)
        case Fault.FREEZE:
            worker.process.thaw()
        case Fault.BLACKHOLE:
            worker.way.blackhole(False)
            await worker.way.deafen(False)
        case Fault.SLOW:
            worker.way.round_trip_s = 0.0
        case Fault.CUT | Fault.TRUNCATE:
            pass


class Troublemaker:
    """Troubles one worker of a pool at a time, each for a while, and lets it come back."""

    def __init__(
        self,
        fleet: Fleet,
        pool: Sequence[Replica],
        rolls: random.Random,
        *,
        longest_s: float = 3.0,
    ) -> None:
        """`longest_s`: how long a fault lasts at most; a restart takes as long as it does."""
        self._fleet = fleet
        self._pool = pool
        self._rolls = rolls
        self._longest_s = longest_s
        self.made: Counter[Fault] = Counter()
        """How often each has happened."""

    async def once(self, fault: Fault) -> None:
        """One fault at a random worker from its begin to the worker's return to work."""
        worker = self._rolls.choice(self._pool)
        await begin(fault, worker, self._rolls)
        try:
            await asyncio.sleep(self._rolls.uniform(0.0, self._longest_s))
        finally:
            await end(fault, worker)
        self.made[fault] += 1
        await self._fleet.usable()

    async def go_round(self, faults: Sequence[Fault] = tuple(Fault)) -> None:
        """Each of them once, in any order, with pauses."""
        for fault in self._rolls.sample(faults, len(faults)):
            await asyncio.sleep(self._rolls.uniform(0.0, 0.5))
            await self.once(fault)

    async def go_on(self, faults: Sequence[Fault] = tuple(Fault)) -> None:
        """Until it is cancelled."""
        while True:
            await self.go_round(faults)
