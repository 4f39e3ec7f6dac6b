"""Connections on which nothing is said for long: a peer that works, and one that is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode, aio

from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.fault_proxy import FaultProxy
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import verify_round
from outrider.worker import rounds, signs_of_life
from outrider.worker.server import WorkerServer
from tests.integration.worker.verifying import PROMPT, opened

FORWARD_S = 50.0
"""By then gRPC's own limit for pings would have ended the connection three times over."""
LONGEST_HOLD_S = 30.0


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[WorkerServer[Any, Any]]:
    server = await start_target(WorkerPlan(model))
    try:
        yield server
    finally:
        await server.stop(0)


@pytest.mark.slow
async def test_a_forward_of_a_minute_without_a_word_ends_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only pings go to and fro; a server that takes them for too many says GOAWAY."""
    for module in (signs_of_life, rounds):
        monkeypatch.setattr(module, "SIGN_INTERVAL_S", 1000.0)
    model = TableModel(random_table(seed=1), step_time_s=FORWARD_S)
    async with serving(model) as server, open_channel(server.rpc.address) as channel:
        stream = await opened(channel)
        began = time.monotonic()
        answer = await stream.ask(verify_round(1, PROMPT))
        assert time.monotonic() - began > FORWARD_S - 1
        assert answer.HasField("verdict")
        await stream.half_close()
        assert await stream.call.code() == StatusCode.OK


@pytest.mark.slow
async def test_a_caller_whose_machine_is_gone_holds_nothing_for_long() -> None:
    """It never says goodbye: pings find out, and the state is cache from then on.

    Pings of gRPC's own are on their way at that moment.
    """
    async with (
        serving(TableModel(random_table(seed=1))) as server,
        FaultProxy(server.rpc.address) as proxy,
        open_channel(proxy.address) as channel,
    ):
        streams = [await opened(channel) for _ in range(5)]
        for stream in streams:
            await stream.ask(verify_round(1, PROMPT))
        status = await server.runtime.status()
        assert (status.open_streams, status.handles_in_use) == (5, 5)
        proxy.blackhole(True)
        began = time.monotonic()
        while (status := await server.runtime.status()).handles_in_use or status.open_streams:
            assert time.monotonic() - began < LONGEST_HOLD_S
            await asyncio.sleep(0.2)
        assert status.kv_blocks_in_use == 0
        assert status.handles_leased == 5
        # What comes after all is no answer to anybody.
        proxy.blackhole(False)
        with pytest.raises((aio.AioRpcError, EOFError)):
            await asyncio.wait_for(streams[0].ask(verify_round(2, PROMPT)), 30)
