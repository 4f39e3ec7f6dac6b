"""A TCP proxy that does to a connection what networks do: delay, cut, swallow, break off."""

from __future__ import annotations

import asyncio
import socket
import struct
from enum import Enum
from typing import TYPE_CHECKING, cast

from outrider.delay_proxy import LOOPBACK, DelayProxy

if TYPE_CHECKING:
    from outrider.delay_proxy import Pieces

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: the peer gets a reset, not an end."""


class Way(Enum):
    """A direction of a connection."""

    THERE = "there"
    """From who connected."""
    BACK = "back"


class FaultProxy(DelayProxy):
    """A delay proxy with more faults; each may come and go at any time.

    `round_trip_s` delays, `blackhole` holds all bytes back and tells nobody, `cut` resets,
    `truncate` breaks off within a message, `deafen` leaves connects without an answer. All belongs
    to the event loop that started it.
    """

    def __init__(self, target_address: str, *, round_trip_s: float = 0.0) -> None:
        """`target_address` is host:port."""
        super().__init__(target_address, round_trip_s=round_trip_s)
        self._door: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._stuck: list[socket.socket] = []
        self._sinks: set[_Sink] = set()

    @property
    def address(self) -> str:
        """Where to connect instead, host:port. Only while it runs."""
        if self._door is None:
            raise RuntimeError("the proxy does not run")
        host, port = self._door.getsockname()
        return f"{host}:{port}"

    async def start(self) -> None:
        """Listens on a free port of the loopback interface. Raises OSError."""
        self._door = socket.create_server((LOOPBACK, 0))
        self._door.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._door))

    async def stop(self) -> None:
        """Listens no more and cuts what is connected."""
        door, self._door = self._door, None
        if door is None or self._accepting is None:
            return
        self._accepting.cancel()
        links = tuple(self._links)
        self.cut()
        await asyncio.gather(self._accepting, *links, return_exceptions=True)
        for one in (*self._stuck, door):
            one.close()

    def cut(self) -> None:
        """Resets every connection, what is on its way included. New ones are welcome."""
        for sink in self._sinks:
            sink.reset_on_close()
        super().cut()

    def truncate(self, after: int, way: Way = Way.BACK) -> None:
        """Ends each connection there is once `after` more bytes have gone that way."""
        for sink in self._sinks:
            if sink.way is way:
                sink.left = after

    def redirect(self, target_address: str) -> None:
        """Sends new connections to another host:port, as when a service came back elsewhere."""
        host, _, port = target_address.rpartition(":")
        self._target = host.strip("[]"), int(port)

    async def deafen(self, on: bool) -> None:  # noqa: FBT001
        """While on, a connect gets no answer, as when its SYN is dropped."""
        if on and self._accepting is not None and self._door is not None:
            self._accepting.cancel()
            self._door.listen(0)
            self._fill(self._door)
        elif not on and self._door is not None:
            while self._stuck:
                self._stuck.pop().close()
            self._door.listen(128)
            self._accepting = asyncio.create_task(self._accept(self._door))

    def _fill(self, door: socket.socket) -> None:
        """A kernel drops the SYNs of a listener whose queue is full."""
        for _ in range(4):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(door.getsockname())
            self._stuck.append(waiting)

    async def _accept(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(door)
            self._welcome(*await asyncio.open_connection(sock=accepted))

    async def _give(self, pieces: Pieces, sink: asyncio.StreamWriter) -> None:
        port = int(self.address.rpartition(":")[2])
        way = Way.BACK if sink.get_extra_info("sockname")[1] == port else Way.THERE
        breakable = _Sink(sink, way)
        self._sinks.add(breakable)
        try:
            await super()._give(pieces, cast("asyncio.StreamWriter", breakable))
        finally:
            self._sinks.discard(breakable)


class _Sink:
    """A writer that may have but so many bytes left."""

    def __init__(self, writer: asyncio.StreamWriter, way: Way) -> None:
        self._writer = writer
        self.way = way
        self.left: int | None = None

    def write(self, piece: bytes) -> None:
        """Takes as much as is left."""
        if self.left is not None:
            piece = piece[: self.left]
            self.left -= len(piece)
        self._writer.write(piece)

    async def drain(self) -> None:
        """Raises ConnectionAbortedError once nothing is left."""
        if self.left == 0:
            self._writer.transport.set_write_buffer_limits(0)
        await self._writer.drain()
        if self.left == 0:
            raise ConnectionAbortedError

    def write_eof(self) -> None:
        """Nothing more comes."""
        self._writer.write_eof()

    def reset_on_close(self) -> None:
        """Makes the end a reset."""
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE
        )
