"""Slow work beside the event loop that never holds up the end of the process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

ResultT = TypeVar("ResultT")


def leave_at_once(code: int) -> NoReturn:
    """Ends the process without tearing down what its daemon threads may be in the middle of.

    The interpreter's own end would abort it when such a thread runs native code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def in_daemon_thread(work: Callable[[], ResultT], *, name: str) -> ResultT:
    """The result of `work`, done in a thread of its own; what it raises is raised here.

    Unlike the loop's own executor, nobody waits for the thread when the process ends: a model that
    is still loading does not delay SIGTERM. Cancelling the caller leaves the thread to itself.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ResultT] = loop.create_future()

    def settle(result: ResultT | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
