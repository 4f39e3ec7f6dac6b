"""Ready files, and work beside the loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from outrider.rpc.background import in_daemon_thread
from outrider.rpc.open_calls import OpenCalls
from outrider.rpc.ready import announce, announced


def test_an_address_is_announced_whole_or_not_at_all(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready"
    assert announced(ready_file) is None
    ready_file.touch()
    assert announced(ready_file) is None
    announce("127.0.0.1:7400", ready_file)
    assert announced(ready_file) == "127.0.0.1:7400"
    assert list(tmp_path.iterdir()) == [ready_file]


def test_without_a_file_nothing_is_announced() -> None:
    announce("127.0.0.1:7400", None)


async def test_results_and_errors_come_back_from_the_thread() -> None:
    assert await in_daemon_thread(threading.current_thread, name="loading") is not (
        threading.current_thread()
    )

    def fail() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        await in_daemon_thread(fail, name="loading")


async def test_a_cancelled_wait_leaves_the_thread_alone() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(10)
        ended.set()

    waiting = asyncio.create_task(in_daemon_thread(work, name="loading"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 10)
    await asyncio.sleep(0)


async def test_the_last_handler_ends_the_wait() -> None:
    calls, leave, left = OpenCalls(), asyncio.Event(), False

    async def handler() -> None:
        nonlocal left
        with calls:
            await leave.wait()
            left = True

    handlers = [asyncio.create_task(handler()) for _ in range(3)]
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, leave.set)
    await calls.wait_for_none(most_s=10)
    assert left
    await asyncio.gather(*handlers)


async def test_a_handler_that_stays_does_not_hold_the_wait_forever() -> None:
    calls = OpenCalls()
    with calls:
        async with asyncio.timeout(60):
            await calls.wait_for_none(most_s=0.01)
