"""How many streams are being opened on one channel at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any

from grpc import aio

from coordinator.calls import CLOSED_CALL_ERRORS, awaited_calls

MOST_OPENINGS = 64
"""A server that gets many more at once may refuse some."""
LONGEST_OPENING_S = 5.0
"""A stream that is not taken up within that time makes room for the next all the same."""


class Openings:
    """Whoever opens a stream takes a place, and has it until the server has taken the stream up."""

    def __init__(self, most: int = MOST_OPENINGS) -> None:
        self._free = most
        self._line: deque[asyncio.Future[None]] = deque()
        self._pending: set[asyncio.Task[None]] = set()

    def take_now(self) -> bool:
        """Takes a place if there is one and nobody waits."""
        if self._free == 0 or self._line:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Takes a place, in turn."""
        if self.take_now():
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Frees a place."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def opened(self, call: aio.StreamStreamCall[Any, Any]) -> None:
        """The place becomes free once that call is taken up or has failed."""
        task = asyncio.create_task(self._until_taken_up(call.initial_metadata()))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _until_taken_up(self, metadata: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(LONGEST_OPENING_S):
                with awaited_calls():
                    await metadata
        except (TimeoutError, aio.AioRpcError, *CLOSED_CALL_ERRORS):
            pass
        finally:
            self.give_back()
