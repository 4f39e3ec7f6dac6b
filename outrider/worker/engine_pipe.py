"""A worker's end of the socket that its model process is at."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Self

from outrider.worker.engine_frames import FrameReader, to_frame
from outrider.worker.engine_messages import Report, Request
from outrider.worker.engine_plan import EnginePlan


class EnginePipe(asyncio.Protocol):
    """Messages out and in, on the event loop.

    What is posted in one turn of the loop is sent at once, and the frames that have arrived are
    read at once: no thread is in between.
    """

    def __init__(self, *, on_message: Callable[[Report], None], on_end: Callable[[], None]) -> None:
        """`on_end` is told once, when no message follows."""
        self._on_message = on_message
        self._on_end = on_end
        self._reader = FrameReader()
        self._unsent: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None

    async def open(self, end: socket.socket) -> Self:
        """Takes the socket over."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)
        return self

    def post(self, message: EnginePlan | Request) -> None:
        """Sends a message soon. Raises what pickling it raises; others are sent all the same."""
        frame = to_frame([message])
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(frame)

    def close(self) -> None:
        """Closes the socket after what was posted."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        """The socket is ready."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Takes what has arrived."""
        for message in self._reader.feed(data):
            self._on_message(message)

    def connection_lost(self, error: Exception | None) -> None:
        """The process has ended, or the pipe was closed here."""
        self._transport = None
        self._on_end()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            self._transport.write(b"".join(unsent))
