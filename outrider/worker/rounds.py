"""One stream's Rounds, in order, one at a time.

A round that has not begun its first forward gives way to a later one of the same stream and is
answered `Superseded`; one that has begun goes on as the later round if that is what it asks for,
else it is finished and answered first. Work that takes longer than a second is reported by
`Progress`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from outrider.engine.loop import Done, Ticket
from outrider.worker.signs_of_life import SIGN_INTERVAL_S


class NumberedRound(Protocol):
    """A Round message of either contract."""

    @property
    def number(self) -> int: ...


RoundT = TypeVar("RoundT", bound=NumberedRound)
RoundT_contra = TypeVar("RoundT_contra", contravariant=True)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Answered(Generic[RoundT, ResultT]):
    """The round was worked on: an answer to it, the last one or not."""

    round: RoundT
    done: Done[ResultT]


@dataclass(frozen=True, slots=True)
class GaveWay(Generic[RoundT]):
    """A later round replaced this one before its forward began."""

    round: RoundT


@dataclass(frozen=True, slots=True)
class StillWorking(Generic[RoundT]):
    """The round is still being worked on."""

    round: RoundT
    elapsed_ms: int


Outcome = Answered[RoundT, ResultT] | GaveWay[RoundT] | StillWorking[RoundT]


class RoundWork(Protocol[RoundT_contra, ResultT]):
    """What the rounds of one stream are worked on by."""

    def begin(self, message: RoundT_contra) -> Ticket[ResultT]:
        """Submits a round."""
        ...

    async def go_on(self, message: RoundT_contra) -> bool:
        """Whether the work under way goes on as that of this later round."""
        ...

    async def end_soon(self) -> None:
        """Asks work that would give further answers to end with the next."""
        ...


@dataclass(slots=True)
class _Live(Generic[RoundT, ResultT]):
    """The round that is worked on; times are seconds of time.monotonic."""

    round: RoundT
    ticket: Ticket[ResultT]
    since: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)

    @property
    def answer(self) -> asyncio.Future[Done[ResultT]]:
        """The ticket's own future: a task around it would cost a turn of the event loop."""
        return self.ticket.future

    @property
    def sign_due_s(self) -> float:
        """Seconds until its caller should hear of it again; 0: now."""
        return max(0.0, self.heard + SIGN_INTERVAL_S - time.monotonic())

    def take(self) -> Answered[RoundT, ResultT]:
        """The answer, which must be there."""
        done = self.ticket.take()
        self.since = self.heard = time.monotonic()
        return Answered(self.round, done)

    def sign(self) -> StillWorking[RoundT]:
        """A sign of life."""
        self.heard = time.monotonic()
        return StillWorking(self.round, int((self.heard - self.since) * 1000))


async def run_rounds(
    rounds: AsyncIterator[RoundT], work: RoundWork[RoundT, ResultT]
) -> AsyncGenerator[Outcome[RoundT, ResultT], None]:
    """Runs the rounds of one stream through the model thread; yields what became of each.

    Ends when `rounds` ends and the last round is answered. Raises what `rounds`, `work` or a
    round's own work raises; a live round is abandoned then.
    """
    live: _Live[RoundT, ResultT] | None = None
    waiting: RoundT | None = None
    # What the model thread is being asked: nothing else is looked at meanwhile.
    asked: asyncio.Task[bool] | None = None
    arrival: asyncio.Task[RoundT | None] | None = _next_of(rounds)
    try:
        while arrival is not None or live is not None or waiting is not None:
            if live is None and waiting is not None:
                live, waiting = _Live(waiting, work.begin(waiting)), None
            finished, _ = await asyncio.wait(
                {asked} if asked is not None else _awaited(arrival, live),
                timeout=live.sign_due_s if live is not None else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if asked is not None:
                if asked in finished:
                    goes_on, asked = asked.result(), None
                    if goes_on and live is not None and waiting is not None:
                        live.round, waiting = waiting, None
            elif live is not None and live.answer in finished:
                yield (answered := live.take())
                if answered.done.last:
                    live = None
                elif arrival is None or waiting is not None:
                    # It may not have begun when it was asked before.
                    asked = asyncio.create_task(_end(work))
            elif arrival is not None and arrival in finished:
                newer = arrival.result()
                arrival = _next_of(rounds) if newer is not None else None
                if newer is None:
                    if live is not None:
                        asked = asyncio.create_task(_end(work))
                    continue
                if waiting is not None:
                    yield GaveWay(waiting)
                waiting = newer
                if live is None:
                    continue
                if await live.ticket.withdraw():
                    yield GaveWay(live.round)
                    live = None
                else:
                    asked = asyncio.create_task(_go_on_or_end(work, newer))
            if live is not None and not live.sign_due_s:
                yield live.sign()
    finally:
        for task in (arrival, asked):
            if task is not None:
                task.cancel()
        if live is not None:
            live.ticket.abandon()


def _awaited(
    arrival: asyncio.Task[RoundT | None] | None, live: _Live[RoundT, ResultT] | None
) -> set[asyncio.Future[Any]]:
    awaited: set[asyncio.Future[Any]] = set()
    if arrival is not None:
        awaited.add(arrival)
    if live is not None:
        awaited.add(live.answer)
    return awaited


async def _end(work: RoundWork[RoundT, ResultT]) -> bool:
    await work.end_soon()
    return False


async def _go_on_or_end(work: RoundWork[RoundT, ResultT], newer: RoundT) -> bool:
    """Whether the work under way goes on as that of a newer round; it ends soon if not."""
    return await work.go_on(newer) or await _end(work)


def _next_of(rounds: AsyncIterator[RoundT]) -> asyncio.Task[RoundT | None]:
    async def advance() -> RoundT | None:
        return await anext(rounds, None)

    return asyncio.create_task(advance())
