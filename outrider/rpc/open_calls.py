"""How many handlers are at work, so that a server's end can wait for their last steps."""

from __future__ import annotations

import asyncio
from types import TracebackType


class OpenCalls:
    """Counts the handlers inside `with open_calls:`.

    A call whose caller is gone is over for gRPC at once, while its handler still frees what it
    held: without waiting, the end of the event loop would cut that short.
    """

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @property
    def count(self) -> int:
        """How many there are now."""
        return self._count

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._count -= 1
        if self._count == 0:
            self._none.set()

    async def wait_for_none(self, *, most_s: float) -> None:
        """Returns once no handler is at work, or after `most_s`."""
        try:
            async with asyncio.timeout(most_s):
                await self._none.wait()
        except TimeoutError:
            return
        # gRPC's own task around the handler needs its turn too.
        await asyncio.sleep(0.01)
