"""The delay proxy between a client and an echoing server."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from contextlib import suppress

import pytest

from outrider.delay_proxy import DelayProxy, running_delay_proxy
from tests.integration.echo_server import connect, echo


async def trip_s(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    started = time.monotonic()
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    return time.monotonic() - started


async def test_a_round_trip_takes_what_was_asked() -> None:
    async with echo() as address, DelayProxy(address, round_trip_s=0.06) as proxy:
        reader, writer = await connect(proxy.address)
        assert await trip_s(reader, writer) >= 0.059
        proxy.round_trip_s = 0.0
        async with asyncio.timeout(60):
            while await trip_s(reader, writer) >= 0.059:
                pass
        writer.close()


async def test_bytes_keep_their_order_while_the_delay_changes() -> None:
    rolls = random.Random(1)
    sent = rolls.randbytes(1 << 20)
    async with echo() as address, DelayProxy(address, round_trip_s=0.02) as proxy:
        reader, writer = await connect(proxy.address)

        async def send() -> None:
            place = 0
            while place < len(sent):
                size = rolls.choice((1, 100, 10_000, 50_000))
                writer.write(sent[place : place + size])
                await writer.drain()
                place += size
                proxy.round_trip_s = rolls.choice((0.0, 0.001, 0.02))
                await asyncio.sleep(0)
            writer.write_eof()

        sending = asyncio.create_task(send())
        assert await reader.read(-1) == sent
        await sending
        writer.close()


async def test_many_bytes_take_one_delay_not_one_each() -> None:
    """A pipe, not a queue of sleeps."""
    async with echo() as address, DelayProxy(address, round_trip_s=1.0) as proxy:
        reader, writer = await connect(proxy.address)
        for _ in range(100):
            writer.write(b"x" * 10)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(60):
            await reader.readexactly(1000)
        writer.close()


async def test_cut_breaks_connections_and_welcomes_new_ones() -> None:
    async with echo() as address, DelayProxy(address) as proxy:
        reader, writer = await connect(proxy.address)
        await trip_s(reader, writer)
        proxy.cut()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await connect(proxy.address)
        await trip_s(reader, writer)
        writer.close()


async def test_a_blackhole_tells_nobody_and_loses_nothing() -> None:
    async with echo() as address, DelayProxy(address) as proxy:
        reader, writer = await connect(proxy.address)
        await trip_s(reader, writer)
        proxy.blackhole(True)
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        proxy.blackhole(False)
        assert await reader.readexactly(4) == b"held"
        writer.close()


async def test_a_target_that_is_not_there_ends_the_connection() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        async with DelayProxy(nobody) as proxy:
            reader, writer = await connect(proxy.address)
            with suppress(ConnectionError):
                assert await reader.read(1) == b""
            writer.close()


async def test_one_side_may_end_before_the_other() -> None:
    async with echo() as address, DelayProxy(address, round_trip_s=0.01) as proxy:
        reader, writer = await connect(proxy.address)
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read(-1) == b"last words"
        writer.close()


async def test_stop_ends_what_is_connected() -> None:
    async with echo() as address:
        proxy = DelayProxy(address)
        await proxy.start()
        reader, writer = await connect(proxy.address)
        await trip_s(reader, writer)
        await proxy.stop()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        writer.close()
        with pytest.raises(RuntimeError):
            _ = proxy.address


async def test_on_a_thread_of_its_own() -> None:
    async with echo() as address:
        with running_delay_proxy(address, round_trip_s=0.03) as proxy:
            reader, writer = await connect(proxy.address)
            assert await trip_s(reader, writer) >= 0.029
            writer.close()
