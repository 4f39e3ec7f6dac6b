"""`outrider serve target --engine process` as an operator has it: its log, Ctrl-C and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.rpc.ready import announced
from outrider.testing.streams import verify_round
from outrider.testing.tiny_models import save_tiny
from outrider.v1 import common_pb2
from tests.integration.worker.verifying import answer_of, opened

PROMPT = [97, 98, 99]
SECRET = 987654321987654321
DEADLINE_S = 120


@dataclass
class Service:
    """A running target in a process group of its own, as a terminal's foreground job is."""

    process: subprocess.Popen[str]
    channel: aio.Channel

    def interrupt(self, number: signal.Signals) -> None:
        """What a Ctrl-C sends: the signal to the whole group."""
        os.killpg(self.process.pid, number)

    async def end(self) -> tuple[int, str]:
        """Exit code and log."""
        _, log = await asyncio.to_thread(self.process.communicate, timeout=DEADLINE_S)
        return self.process.returncode, log


@asynccontextmanager
async def serving(folder: Path, *flags: str) -> AsyncIterator[Service]:
    ready_file = folder / "ready"
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "outrider", "serve", "target", "--engine=process", *flags],
        env={**os.environ, "OUTRIDER_READY_FILE": str(ready_file), "OUTRIDER_LOG_FORMAT": "json"},
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    deadline = time.monotonic() + DEADLINE_S
    try:
        while (address := announced(ready_file)) is None:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        async with open_channel(address) as channel:
            yield Service(process, channel)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def children(pid: int) -> Sequence[int]:
    """Processes that it has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


async def test_open_streams_are_served_to_their_end_after_a_stop(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "model")
    flags = [f"--model={model}", "--listen=127.0.0.1:0", "--dtype=float32", "--threads=1"]
    async with serving(tmp_path, *flags) as service:
        (child,) = children(service.process.pid)
        stream = await opened(service.channel, sampling=common_pb2.SamplingParams(seed=SECRET))
        first = await stream.ask(verify_round(1, PROMPT))
        service.interrupt(signal.SIGINT)
        await asyncio.sleep(0.3)
        service.interrupt(signal.SIGTERM)
        token_ids = [*PROMPT, *first.verdict.output_token_ids]
        await stream.send(verify_round(2, token_ids, base=3, decode=20))
        answers = [await answer_of(stream)]
        while not answers[-1].verdict.done:
            answers.append(await answer_of(stream))
        assert len(answers) == 21
        await stream.half_close()
        code, log = await service.end()
    assert code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    events = [json.loads(line) for line in log.splitlines()]
    assert "Traceback" not in log
    assert str(SECRET) not in log
    told = [event["event"] for event in events]
    assert told[0] == "loading"
    assert told[-2:] == ["serving", "draining"]
    # The steps of loading come from the other process, in the same form.
    assert "loading weights" in [event.get("step") for event in events]
    assert {"timestamp", "level", "logger"} <= set.intersection(*(set(e) for e in events))


@pytest.mark.slow
async def test_a_model_that_is_not_there_is_told_as_ever(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    command = [sys.executable, "-m", "outrider", "serve", "target", "--engine=process"]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, f"--model={missing}", "--listen=127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode != 0
    assert str(missing) in done.stderr
    assert "Traceback" not in done.stderr
