"""A TCP proxy that puts a stated round trip between two services on one machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Self, TypeAlias

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 1 << 14
MOST_PIECES = 4096
"""In flight in one direction of one connection; more is left with the sender."""

Pieces: TypeAlias = asyncio.Queue[tuple[float, bytes]]
"""When it is due and what; no bytes: the sender has ended."""


class DelayProxy:
    """Forwards each connection to one address, every byte half a round trip later, in order.

    Half of `round_trip_s` is added in each direction; the event loop's timer adds up to a
    millisecond. A connection itself is made at once. Everything but `round_trip_s` belongs to the
    event loop that started it.
    """

    def __init__(self, target_address: str, *, round_trip_s: float = 0.0) -> None:
        """`target_address` is host:port."""
        host, _, port = target_address.removeprefix("dns:///").rpartition(":")
        self._target = host.strip("[]"), int(port)
        self.round_trip_s = round_trip_s
        """May be changed at any time, by any thread. Bytes on their way keep their order."""
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._passable = asyncio.Event()
        self._passable.set()

    @property
    def address(self) -> str:
        """Where to connect instead, host:port. Only while it runs."""
        if self._server is None:
            raise RuntimeError("the proxy does not run")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def start(self) -> None:
        """Listens on a free port of the loopback interface. Raises OSError."""
        self._server = await asyncio.start_server(self._welcome, LOOPBACK, 0)

    async def stop(self) -> None:
        """Listens no more and cuts what is connected."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            links = tuple(self._links)
            self.cut()
            await asyncio.gather(*links, return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Breaks every connection, what is on its way included. New ones are welcome."""
        for link in self._links:
            link.cancel()

    def blackhole(self, on: bool) -> None:  # noqa: FBT001
        """While on, nothing passes and nobody is told, as when packets are dropped.

        What was sent meanwhile arrives afterwards, as if it had been sent again.
        """
        if on:
            self._passable.clear()
        else:
            self._passable.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.get_running_loop().create_task(self._link(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)
        # A link that is cut before its first step has nobody else to end it.
        link.add_done_callback(lambda _: writer.transport.abort())

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection until both sides have ended it or one has broken."""
        writers = [writer]
        try:
            await self._passable.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            writers.append(far_writer)
            async with asyncio.TaskGroup() as ways:
                for source, sink in ((reader, far_writer), (far_reader, writer)):
                    pieces: Pieces = asyncio.Queue(MOST_PIECES)
                    ways.create_task(self._take(source, pieces))
                    ways.create_task(self._give(pieces, sink))
        except* OSError:
            pass
        finally:
            for one in writers:
                one.transport.abort()

    async def _take(self, source: asyncio.StreamReader, pieces: Pieces) -> None:
        clock = asyncio.get_running_loop().time
        due = 0.0
        piece = b"something"
        while piece:
            piece = await source.read(PIECE_BYTES)
            due = max(due, clock() + self.round_trip_s / 2)
            await pieces.put((due, piece))

    async def _give(self, pieces: Pieces, sink: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        piece = b"something"
        while piece:
            due, piece = await pieces.get()
            if due > clock():
                await asyncio.sleep(due - clock())
            await self._passable.wait()
            if piece:
                sink.write(piece)
                await sink.drain()
        sink.write_eof()


@contextmanager
def running_delay_proxy(target_address: str, *, round_trip_s: float) -> Iterator[DelayProxy]:
    """A proxy on a thread of its own, for callers without an event loop.

    Only its `address` and `round_trip_s` are for the caller. Raises OSError.
    """
    proxy = DelayProxy(target_address, round_trip_s=round_trip_s)
    started: Future[asyncio.AbstractEventLoop] = Future()
    ended = asyncio.Event()

    async def run() -> None:
        try:
            await proxy.start()
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(asyncio.get_running_loop())
        await ended.wait()
        await proxy.stop()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="delay-proxy", daemon=True)
    thread.start()
    loop = started.result()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
