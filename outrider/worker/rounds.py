"""One stream's Rounds, in order, one at a time.

A round that has not begun its first forward gives way to a later one of the same stream and is
answered `Superseded`; a round that has begun is finished and answered first. Work that takes
longer than a second is reported by `Progress`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from outrider.engine.loop import Done, Ticket

PROGRESS_INTERVAL_S = 1.0


class NumberedRound(Protocol):
    """A Round message of either contract."""

    @property
    def number(self) -> int: ...


RoundT = TypeVar("RoundT", bound=NumberedRound)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Answered(Generic[RoundT, ResultT]):
    """The round was worked on to its end."""

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


@dataclass(slots=True)
class _Live(Generic[RoundT, ResultT]):
    round: RoundT
    ticket: Ticket[ResultT]
    since: float

    @property
    def result(self) -> asyncio.Future[Done[ResultT]]:
        """The ticket's own future: a task around it would cost a turn of the event loop."""
        return self.ticket.future


async def run_rounds(
    rounds: AsyncIterator[RoundT], submit: Callable[[RoundT], Ticket[ResultT]]
) -> AsyncGenerator[Outcome[RoundT, ResultT], None]:
    """Runs the rounds of one stream through the model thread; yields what became of each.

    Ends when `rounds` ends and the last round is answered. Raises what `rounds`, `submit` or a
    round's work raises; a live round is withdrawn then if it can be.
    """
    live: _Live[RoundT, ResultT] | None = None
    waiting: RoundT | None = None
    arrival: asyncio.Task[RoundT | None] | None = _next_of(rounds)
    try:
        while arrival is not None or live is not None or waiting is not None:
            if live is None and waiting is not None:
                live, waiting = _begin(waiting, submit), None
            awaited: set[asyncio.Task[RoundT | None] | asyncio.Future[Done[ResultT]]] = set()
            if arrival is not None:
                awaited.add(arrival)
            if live is not None:
                awaited.add(live.result)
            timeout = PROGRESS_INTERVAL_S if live is not None else None
            finished, _ = await asyncio.wait(
                awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if live is not None and live.result in finished:
                yield Answered(live.round, live.result.result())
                live = None
            elif live is not None and not finished:
                yield StillWorking(live.round, int((time.monotonic() - live.since) * 1000))
            if arrival is not None and arrival in finished:
                newer = arrival.result()
                arrival = _next_of(rounds) if newer is not None else None
                if newer is None:
                    continue
                if waiting is not None:
                    yield GaveWay(waiting)
                waiting = newer
                if live is not None and live.ticket.withdraw():
                    live.result.cancel()
                    yield GaveWay(live.round)
                    live = None
    finally:
        if arrival is not None:
            arrival.cancel()
        if live is not None:
            live.ticket.withdraw()
            live.result.cancel()


def _begin(message: RoundT, submit: Callable[[RoundT], Ticket[ResultT]]) -> _Live[RoundT, ResultT]:
    return _Live(message, submit(message), time.monotonic())


def _next_of(rounds: AsyncIterator[RoundT]) -> asyncio.Task[RoundT | None]:
    async def advance() -> RoundT | None:
        return await anext(rounds, None)

    return asyncio.create_task(advance())
