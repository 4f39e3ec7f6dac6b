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
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from outrider.engine.loop import Done, Ticket

PROGRESS_INTERVAL_S = 1.0


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
    round: RoundT
    ticket: Ticket[ResultT]
    since: float

    @property
    def answer(self) -> asyncio.Future[Done[ResultT]]:
        """The ticket's own future: a task around it would cost a turn of the event loop."""
        return self.ticket.future


async def run_rounds(
    rounds: AsyncIterator[RoundT], work: RoundWork[RoundT, ResultT]
) -> AsyncGenerator[Outcome[RoundT, ResultT], None]:
    """Runs the rounds of one stream through the model thread; yields what became of each.

    Ends when `rounds` ends and the last round is answered. Raises what `rounds`, `work` or a
    round's own work raises; a live round is abandoned then.
    """
    live: _Live[RoundT, ResultT] | None = None
    waiting: RoundT | None = None
    arrival: asyncio.Task[RoundT | None] | None = _next_of(rounds)
    try:
        while arrival is not None or live is not None or waiting is not None:
            if live is None and waiting is not None:
                live, waiting = _Live(waiting, work.begin(waiting), time.monotonic()), None
            awaited: set[asyncio.Task[RoundT | None] | asyncio.Future[Done[ResultT]]] = set()
            if arrival is not None:
                awaited.add(arrival)
            if live is not None:
                awaited.add(live.answer)
            timeout = PROGRESS_INTERVAL_S if live is not None else None
            finished, _ = await asyncio.wait(
                awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if live is not None and live.answer in finished:
                done = live.ticket.take()
                yield Answered(live.round, done)
                if done.last:
                    live = None
                else:
                    live.since = time.monotonic()
                    if arrival is None or waiting is not None:
                        # It may not have begun when it was asked before.
                        await work.end_soon()
            elif live is not None and not finished:
                yield StillWorking(live.round, int((time.monotonic() - live.since) * 1000))
            if arrival is not None and arrival in finished:
                newer = arrival.result()
                arrival = _next_of(rounds) if newer is not None else None
                if newer is None:
                    if live is not None:
                        await work.end_soon()
                    continue
                if waiting is not None:
                    yield GaveWay(waiting)
                waiting = newer
                if live is None:
                    continue
                if await live.ticket.withdraw():
                    yield GaveWay(live.round)
                    live = None
                elif await work.go_on(newer):
                    live.round, waiting = newer, None
                else:
                    await work.end_soon()
    finally:
        if arrival is not None:
            arrival.cancel()
        if live is not None:
            live.ticket.abandon()


def _next_of(rounds: AsyncIterator[RoundT]) -> asyncio.Task[RoundT | None]:
    async def advance() -> RoundT | None:
        return await anext(rounds, None)

    return asyncio.create_task(advance())
