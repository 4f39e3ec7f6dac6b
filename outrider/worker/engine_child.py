"""The process of the model: it loads it, runs its loop, and ends when its worker is gone.

Started by `engine_process.py` with the number of a socket. SIGINT and SIGTERM are blocked in it
from before its first instruction: the worker drains first, then closes the socket.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import structlog

from outrider.logs import configure_logs
from outrider.rpc.background import leave_at_once
from outrider.worker.engine_frames import FrameReader
from outrider.worker.engine_host import EngineHost
from outrider.worker.engine_plan import EnginePlan

PIECE_BYTES = 1 << 18

log = structlog.get_logger(__name__)


def main() -> NoReturn:
    """Serves the worker at the other end of the socket, for as long as that is there."""
    pipe = socket.socket(fileno=int(sys.argv[1]))
    messages = _messages(pipe)
    plan = next(messages, None)
    if not isinstance(plan, EnginePlan):
        leave_at_once(0)
    configure_logs(level=plan.log_level, log_format=plan.log_format)
    try:
        host = EngineHost(plan, pipe)
        for message in messages:
            host.take(message)
    except BaseException:
        log.critical("the model process failed", exc_info=True)
        leave_at_once(1)
    # The forward in progress is of no use to anybody: a cache is a memo.
    leave_at_once(0)


def _messages(pipe: socket.socket) -> Iterator[Any]:
    """What arrives, until the worker is gone."""
    reader = FrameReader()
    try:
        while piece := pipe.recv(PIECE_BYTES):
            yield from reader.feed(piece)
    except ConnectionError:
        return


if __name__ == "__main__":
    main()
