"""A coordinator that is killed, or cut off, in the middle of an answer (FAULTS K8)."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from outrider.testing.fault_proxy import FaultProxy, Way
from outrider.testing.fleet import Fleet
from outrider.testing.processes import ServiceProcess
from outrider.testing.resumed import ask
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request

TOKENS = 160


def at(length: int, action: Callable[[], object]) -> Callable[[int], None]:
    """Does it once, when that many ids have come."""
    done: list[int] = []

    def on_length(now: int) -> None:
        if now >= length and not done:
            done.append(now)
            action()

    return on_length


async def test_another_coordinator_goes_on(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, targets=1, drafts=1, coordinators=2) as fleet:
        await killed_at(fleet, 50)
        await cut_off_again_and_again(fleet, seed=3)
        await the_command_goes_on(fleet)


@pytest.mark.slow
async def test_wherever_it_is_lost(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, targets=1, drafts=1, coordinators=2) as fleet:
        for length in (1, 2, 80, TOKENS - 1, TOKENS):
            await killed_at(fleet, length)
        for seed in (None, 1, 2, 3, 4, 5):
            await cut_off_again_and_again(fleet, seed=seed)


async def killed_at(fleet: Fleet, length: int) -> None:
    """The first of two coordinators dies when that many tokens have come."""
    first, second = fleet.coordinators
    request = tiny_request(length, tokens=TOKENS, seed=length)
    whole = await asyncio.to_thread(ask, [second.address], request)
    broken = await asyncio.to_thread(ask, fleet.addresses, request, at(length, first.kill))
    assert len(whole.token_ids) == TOKENS
    assert (broken.token_ids, broken.text) == (whole.token_ids, whole.text)
    assert [retry.address for retry in broken.retries] == [second.address]
    await asyncio.to_thread(first.start)


async def cut_off_again_and_again(fleet: Fleet, *, seed: int | None) -> None:
    """One coordinator, and a way to it that breaks at any byte."""
    request = tiny_request(0, tokens=TOKENS, seed=seed)
    whole = await asyncio.to_thread(ask, fleet.addresses, request)
    async with FaultProxy(fleet.addresses[0]) as way:
        breaks = Breaks(way, random.Random(1), asyncio.get_running_loop())
        broken = await asyncio.to_thread(ask, [way.address], request, breaks)
    assert broken.retries
    assert (broken.token_ids, broken.text) == (whole.token_ids, whole.text)


@dataclass
class Breaks:
    """Breaks a way now and then, as the output grows."""

    way: FaultProxy
    rolls: random.Random
    loop: asyncio.AbstractEventLoop

    def __call__(self, length: int) -> None:
        """One of four faults, or none."""
        match self.rolls.randrange(25):
            case 0:
                self.loop.call_soon_threadsafe(self.way.cut)
            case 1:
                self.loop.call_soon_threadsafe(self.way.truncate, self.rolls.randrange(200))
            case 2:
                self.loop.call_soon_threadsafe(self.way.truncate, 0, Way.THERE)


async def the_command_goes_on(fleet: Fleet) -> None:
    """`outrider generate` by itself: standard output is whole, standard error says what was."""
    first = fleet.coordinators[0]
    command = [
        *(sys.executable, "-m", "outrider", "generate", "the ing of", "--raw", "--seed", "7"),
        *("--max-new-tokens", str(TOKENS), "--address", ",".join(fleet.addresses)),
    ]
    whole, quiet = await run(command)
    assert not quiet
    broken, notice = await run(command, kill=first)
    assert broken == whole
    assert "going on after" in notice
    assert fleet.addresses[1] in notice


async def run(command: list[str], kill: ServiceProcess | None = None) -> tuple[bytes, str]:
    """Standard output and error of a command; `kill` dies when the first bytes have come."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    begun = await process.stdout.read(8)
    if kill is not None:
        await asyncio.to_thread(kill.kill)
    rest, notice = await process.communicate()
    assert process.returncode == 0, notice.decode()
    return begun + rest, notice.decode()
