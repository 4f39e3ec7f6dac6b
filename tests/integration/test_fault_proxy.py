"""The fault proxy between a client and an echoing server."""

from __future__ import annotations

import asyncio

import pytest

from outrider.testing.fault_proxy import FaultProxy, Way
from tests.integration.echo_server import Link, connect, echo


async def echoes(link: Link) -> None:
    reader, writer = link
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"


async def test_a_cut_is_a_reset() -> None:
    async with echo() as address, FaultProxy(address) as proxy:
        reader, writer = link = await connect(proxy.address)
        await echoes(link)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        again = await connect(proxy.address)
        await echoes(again)
        again[1].close()


async def test_a_blackhole_holds_and_then_delivers() -> None:
    async with echo() as address, FaultProxy(address) as proxy:
        reader, writer = link = await connect(proxy.address)
        await echoes(link)
        proxy.blackhole(True)
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        proxy.blackhole(False)
        assert await reader.readexactly(4) == b"held"
        writer.close()


@pytest.mark.parametrize("after", [1, 10_000, 200_000])
async def test_an_answer_is_broken_off_at_the_stated_byte(after: int) -> None:
    sent = bytes(range(256)) * 2000
    async with echo() as address, FaultProxy(address) as proxy:
        reader, writer = link = await connect(proxy.address)
        await echoes(link)
        proxy.truncate(after)
        writer.write(sent)
        assert await reader.read() == sent[:after]
        writer.close()
        again = await connect(proxy.address)
        await echoes(again)
        again[1].close()


async def test_a_request_is_broken_off_while_answers_pass() -> None:
    async with echo() as address, FaultProxy(address) as proxy:
        reader, writer = link = await connect(proxy.address)
        await echoes(link)
        proxy.truncate(3, Way.THERE)
        writer.write(b"request")
        assert (await reader.read()) in (b"", b"req")
        writer.close()


async def test_a_deaf_listener_leaves_connects_without_an_answer() -> None:
    async with echo() as address, FaultProxy(address) as proxy:
        old = await connect(proxy.address)
        await echoes(old)
        await proxy.deafen(True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await echoes(await connect(proxy.address))
        await echoes(old)
        await proxy.deafen(False)
        new = await connect(proxy.address)
        await echoes(new)
        old[1].close()
        new[1].close()


async def test_a_service_may_come_back_elsewhere() -> None:
    async with echo(b"one") as first, echo(b"two") as second, FaultProxy(first) as proxy:
        old = await connect(proxy.address)
        proxy.redirect(second)
        new = await connect(proxy.address)
        assert await old[0].readexactly(3) == b"one"
        assert await new[0].readexactly(3) == b"two"
        old[1].close()
        new[1].close()


async def test_stop_ends_what_is_connected_and_may_be_repeated() -> None:
    async with echo() as address:
        proxy = FaultProxy(address)
        await proxy.start()
        reader, writer = link = await connect(proxy.address)
        await echoes(link)
        await proxy.stop()
        await proxy.stop()
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        writer.close()
        with pytest.raises(RuntimeError):
            _ = proxy.address
