"""The model's process: how it starts, what becomes of it, and what its worker says then."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.engine.load_error import ModelLoadError
from outrider.engine.loading import load_model
from outrider.errors import InternalFailure, PoolUnavailable
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_worker
from outrider.testing.model_process import process_plan, start_worker_process
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import draft_round, open_draft, verify_round
from outrider.worker.binding import OpenState
from outrider.worker.engine_process import ProcessLoop
from target_service.kind import target_kind
from tests.integration.worker.verifying import PROMPT, opened, until

KIND = target_kind(max_draft_length=16)
SLOW = partial(TableModel, random_table(seed=1), step_time_s=0.2)


def runs(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be reaped."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def ended(pid: int) -> None:
    for _ in range(2000):
        if not runs(pid):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {pid} goes on")


async def test_a_process_that_is_killed_ends_its_streams_and_the_worker_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await start_worker_process(KIND, SLOW)
    loop = server.runtime.loop
    assert isinstance(loop, ProcessLoop)
    async with open_channel(server.rpc.address) as channel:
        streams = [await opened(channel) for _ in range(3)]
        await until(channel, lambda s: s.open_streams == 3)
        await streams[0].send(verify_round(1, PROMPT, decode=100))
        await streams[1].send(verify_round(1, PROMPT))
        await asyncio.sleep(0.1)
        pending = asyncio.ensure_future(server.runtime.loop.memory())
        await asyncio.sleep(0)
        os.kill(loop.pid, signal.SIGKILL)
        for stream in streams[:2]:
            with pytest.raises(aio.AioRpcError) as raised:
                while True:
                    await stream.read()
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "model process has ended" in (raised.value.details() or "")
        with pytest.raises(PoolUnavailable):
            await pending
        assert not loop.alive
        with pytest.raises(PoolUnavailable):
            loop.submit(None)
        with pytest.raises(PoolUnavailable):
            await loop.memory()
        loop.forget("a stream")
        health = health_pb2_grpc.HealthStub(channel)
        for _ in range(200):
            answer = await health.Check(health_pb2.HealthCheckRequest())
            if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                break
            await asyncio.sleep(0.02)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    await server.stop(0)
    gc.collect()
    await asyncio.sleep(0)
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_what_only_an_action_can_raise_stays_in_the_log_and_the_end_is_quick() -> None:
    loop: ProcessLoop[Any, Any] = ProcessLoop()
    description = await loop.start(process_plan(KIND, SLOW))
    assert description.vocabulary_size == 8
    assert loop.alive
    binding = await loop.call(OpenState(None, new_id="a" * 32, owner="b", scope=b""))
    assert binding.owner == "b"
    with pytest.raises(InternalFailure, match="its log says why"):
        await loop.call(attrgetter("nothing_of_that_name"))
    call = asyncio.ensure_future(loop.memory())
    await asyncio.sleep(0)
    await loop.close()
    with pytest.raises(PoolUnavailable):
        await call
    assert not loop.alive
    assert not runs(loop.pid)
    await loop.close()


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (partial(load_model, "/no/model", role="target", cache_dir=Path("/tmp")), "/no/model"),
        pytest.param(
            partial(int, "no number"), "cannot be loaded: ValueError", marks=pytest.mark.slow
        ),
        (partial(os._exit, 3), "ended before it had loaded"),
    ],
    ids=["no model", "another error", "an end"],
)
async def test_a_model_that_cannot_be_loaded_is_a_load_error(build: Any, reason: str) -> None:
    loop: ProcessLoop[Any, Any] = ProcessLoop()
    with pytest.raises(ModelLoadError, match=reason):
        await loop.start(process_plan(KIND, build))
    assert not loop.alive
    assert not runs(loop.pid)


async def test_nothing_is_imported_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "structlog.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    loop: ProcessLoop[Any, Any] = ProcessLoop()
    await loop.start(process_plan(KIND, SLOW))
    await loop.close()


async def test_giving_up_a_start_ends_the_process() -> None:
    loop: ProcessLoop[Any, Any] = ProcessLoop()
    starting = asyncio.ensure_future(loop.start(process_plan(KIND, SLOW)))
    await asyncio.sleep(0.1)
    assert runs(loop.pid)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not runs(loop.pid)


async def test_a_model_thread_that_dies_ends_its_process() -> None:
    fatal: Any = sys.exit
    build = partial(ScriptedModel, fatal, vocabulary_size=8)
    server = await start_worker_process(KIND, build)
    async with open_channel(server.rpc.address) as channel:
        stream = await opened(channel)
        with pytest.raises(aio.AioRpcError) as raised:
            await stream.ask(verify_round(1, PROMPT))
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    for _ in range(500):
        if not server.runtime.loop.alive:
            break
        await asyncio.sleep(0.02)
    assert not server.runtime.loop.alive
    await server.stop(0)


async def test_a_draft_proposes_the_same_from_a_process() -> None:
    kind = draft_kind(CandidateCut(6, 0.9))
    proposals = []
    for server in (
        await start_worker(kind, WorkerPlan(TableModel(random_table(seed=2)))),
        await start_worker_process(kind, partial(TableModel, random_table(seed=2))),
    ):
        async with open_channel(server.rpc.address) as channel:
            stream = await open_draft(channel, derived_seed=5, prompt_length=3, vocabulary_size=8)
            answer = await stream.ask(draft_round(1, PROMPT, until=12))
            proposals.append([token.SerializeToString() for token in answer.proposal.tokens])
            await stream.half_close()
        await server.stop(0)
    assert proposals[0] == proposals[1]
    assert len(proposals[0]) == 9


PARENT = """
import asyncio
from functools import partial
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import TableModel, random_table
from target_service.kind import target_kind

async def main():
    build = partial(TableModel, random_table(seed=1))
    server = await start_worker_process(target_kind(max_draft_length=4), build)
    print(server.runtime.loop.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_it_never_outlives_its_worker() -> None:
    parent = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        assert runs(pid)
        parent.kill()
        await ended(pid)
    finally:
        parent.kill()
        parent.communicate()
