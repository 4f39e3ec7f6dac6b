"""A server that sends back what comes, and connections to it: what proxies are tried on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

READ_BYTES = 1 << 16

Link: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo(word: bytes = b"") -> AsyncIterator[str]:
    """The address of a server that says a word and sends back what comes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(word)
            while data := await reader.read(READ_BYTES):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()


async def connect(address: str) -> Link:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))
