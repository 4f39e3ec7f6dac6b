"""Waking the one who waits for something to come."""

from __future__ import annotations

import asyncio


class Bell:
    """Rung by whoever brings something; at most one waits. No task in between."""

    def __init__(self) -> None:
        self._rung: asyncio.Future[bool] | None = None

    async def wait(self, timeout_s: float) -> bool:
        """Waits for the next ring; False when there was none in that time."""
        loop = asyncio.get_running_loop()
        self._rung = loop.create_future()
        timer = loop.call_later(timeout_s, self._answer, False)
        try:
            return await self._rung
        finally:
            timer.cancel()
            self._rung = None

    def ring(self) -> None:
        """Wakes the one who waits, if anyone does."""
        self._answer(True)

    def _answer(self, rung: bool) -> None:  # noqa: FBT001
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(rung)
