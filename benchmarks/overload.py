"""Ten times as many requests as there is capacity for: what is still served, and how refusals come.

A sleep-emulated target and a real coordinator as processes, no draft. The peak is what a full line
of clients gets that ask again as soon as they are answered; the overload comes at a fixed rate,
whatever is answered. Peak, overload, peak.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc import aio

from benchmarks.results import Row
from benchmarks.services import GRACE_S, Silent, service_plan, unpinned
from outrider.cli.deployment import Deployment
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.testing.cluster import token_request
from outrider.testing.emulated import Agreement
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

RUNNING = 8
WAITING = 16
QUEUE_WAIT_S = 4.0
STEP_S = 0.020
ROW_S = 0.0002
TOKENS = 32
OVERLOAD = 10
SECONDS = 15.0
CHANNELS = 4
NOTE = (
    f"sleep-emulated target, {STEP_S * 1000:g} ms and {ROW_S * 1000:g} ms per row; {RUNNING} run, "
    f"{WAITING} wait for at most {QUEUE_WAIT_S:g} s; {TOKENS} tokens each"
)


@dataclass(slots=True)
class Outcome:
    """What clients saw in one period."""

    began: float
    served_s: list[float] = field(default_factory=list)
    """Time of each whole answer."""
    refused_s: list[float] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    """Ends that are neither a whole answer nor a refusal with a time to come again."""
    tokens: int = 0

    async def ask(self, stub: generation_pb2_grpc.GenerationServiceAsyncStub, salt: int) -> None:
        """One request. Tokens of a whole answer count as far as they come within the period."""
        began, came, in_time = time.monotonic(), 0, 0
        try:
            async for response in stub.Generate(_request(salt)):
                came += len(response.chunk.token_ids)
                if time.monotonic() < self.began + SECONDS:
                    in_time = came
        except aio.AioRpcError as error:
            remote = remote_error(error)
            refused = remote.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            if refused and remote.reason and remote.retry_after_s:
                self.refused_s.append(time.monotonic() - began)
            else:
                self.malformed.append(f"{remote.code.name}: {remote.message}")
            return
        if came != TOKENS:
            self.malformed.append(f"{came} tokens")
        self.served_s.append(time.monotonic() - began)
        self.tokens += in_time

    @property
    def goodput(self) -> float:
        """Tokens of whole answers per second."""
        return self.tokens / SECONDS


def measure() -> Iterator[Row]:
    """Goodput against the peak, and how long admitted ones and refusals take."""
    before, loaded, after = asyncio.run(_measure())
    peak = (before.goodput + after.goodput) / 2
    calm_p99 = _percentile([*before.served_s, *after.served_s], 0.99)
    asked = len(loaded.served_s) + len(loaded.refused_s) + len(loaded.malformed)
    yield Row(
        "overload_goodput",
        loaded.goodput,
        "tokens/s",
        1,
        ratio=loaded.goodput / peak,
        against=f"the peak, {before.goodput:.0f} and {after.goodput:.0f} tokens/s",
        bar="at least 0.9",
        note=f"{asked} requests at {OVERLOAD} times the peak's rate: {len(loaded.served_s)} "
        f"served, {len(loaded.refused_s)} refused, {len(loaded.malformed)} ended otherwise; {NOTE}",
    )
    yield Row(
        "overload_refusal_p99",
        _percentile(loaded.refused_s, 0.99) * 1000,
        "ms",
        len(loaded.refused_s),
        bar="",
        note=f"p50 {_percentile(loaded.refused_s, 0.5) * 1000:.1f} ms; each one "
        f"RESOURCE_EXHAUSTED with RetryInfo; {NOTE}",
    )
    yield Row(
        "overload_admitted_p99",
        _percentile(loaded.served_s, 0.99) * 1000,
        "ms",
        len(loaded.served_s),
        ratio=_percentile(loaded.served_s, 0.99) / calm_p99,
        against="the same at the peak",
        bar=f"at most the longest wait, {QUEUE_WAIT_S:g} s, more",
        note=f"p50 {_percentile(loaded.served_s, 0.5) * 1000:.0f} ms; {NOTE}",
    )


async def _measure() -> tuple[Outcome, Outcome, Outcome]:
    async with _coordinator() as stubs:
        await _peak(stubs, seconds=3.0)
        before = await _peak(stubs)
        rate = OVERLOAD * before.goodput / TOKENS
        print(f"  peak {before.goodput:.0f} tokens/s, {rate:.0f} requests/s", file=sys.stderr)
        loaded = await _flood(stubs, rate=rate)
        after = await _peak(stubs)
    return before, loaded, after


async def _peak(
    stubs: Sequence[generation_pb2_grpc.GenerationServiceAsyncStub], *, seconds: float = SECONDS
) -> Outcome:
    """As many clients as may run and wait; each asks again once it is answered."""
    outcome = Outcome(time.monotonic())

    async def client(number: int) -> None:
        salt = number
        while time.monotonic() < outcome.began + seconds:
            await outcome.ask(stubs[number % CHANNELS], salt)
            salt += RUNNING + WAITING

    await asyncio.gather(*(client(number) for number in range(RUNNING + WAITING)))
    return outcome


async def _flood(
    stubs: Sequence[generation_pb2_grpc.GenerationServiceAsyncStub], *, rate: float
) -> Outcome:
    """Requests at a fixed rate, however they end."""
    outcome = Outcome(time.monotonic())
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * SECONDS)):
            due = outcome.began + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(outcome.ask(stubs[number % CHANNELS], number))
    return outcome


@asynccontextmanager
async def _coordinator() -> AsyncIterator[list[generation_pb2_grpc.GenerationServiceAsyncStub]]:
    """Stubs on channels of their own to a coordinator with its target."""
    cores = unpinned().target_cores
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        Deployment(Path(folder), Silent(), grace_s=GRACE_S) as deployment,
    ):
        words = ["benchmarks.emulated_worker", "target", str(STEP_S), str(ROW_S)]
        target = deployment.start([service_plan("target", words, cores)])["target"]
        words = [
            *("outrider", "serve", "--end-with-input", "coordinator", "--listen=127.0.0.1:0"),
            *(f"--target-address={target}", "--draft-address="),
            *(f"--max-generations={RUNNING}", f"--max-waiting={WAITING}"),
            f"--queue-wait-s={QUEUE_WAIT_S}",
        ]
        address = deployment.start([service_plan("coordinator", words, cores)])["coordinator"]
        channels = [open_channel(address) for _ in range(CHANNELS)]
        try:
            yield [generation_pb2_grpc.GenerationServiceStub(channel) for channel in channels]
        finally:
            await asyncio.gather(*(channel.close() for channel in channels))


def _request(salt: int) -> generation_pb2.GenerateRequest:
    return token_request(
        Agreement(acceptance=0.5).prompt(salt),
        max_new_tokens=TOKENS,
        sampling=common_pb2.SamplingParams(temperature=0.0, ignore_eos=True),
    )


def _percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values, the one below which that share lies; 0 without any."""
    return sorted(values)[int(share * len(values))] if values else 0.0
