"""The way out of the model process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

import structlog

from outrider.rpc.background import leave_at_once
from outrider.worker.engine_frames import to_frame
from outrider.worker.engine_messages import LoopState, Report

log = structlog.get_logger(__name__)


class EngineOutbox:
    """Sends what any thread puts in, in that order.

    All that is there goes as one frame, so that the answers of a step travel together; a thread
    of its own pickles and sends, so that the model thread never waits for the worker.
    """

    def __init__(self, pipe: socket.socket, *, state: Callable[[], LoopState]) -> None:
        """`state` is sent ahead of every frame's messages."""
        self._pipe = pipe
        self._state = state
        self._messages: SimpleQueue[Report | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, message: Report) -> None:
        """Sends a message soon. For any thread."""
        self._messages.put(message)

    def close(self) -> None:
        """Returns once all that was put in is sent, or cannot be."""
        self._messages.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                messages, ended = self._gathered()
                if messages:
                    self._pipe.sendall(to_frame([self._state(), *messages]))
                if ended:
                    return
        except OSError:
            pass  # The worker is gone; the reader sees that too, and ends the process.
        except BaseException:
            log.critical("an answer cannot be sent", exc_info=True)
            leave_at_once(1)

    def _gathered(self) -> tuple[list[Report], bool]:
        """What is there, once anything is, and whether that is the end."""
        messages: list[Report] = []
        message = self._messages.get()
        with suppress(Empty):
            while message is not None:
                messages.append(message)
                message = self._messages.get_nowait()
        return messages, message is None
