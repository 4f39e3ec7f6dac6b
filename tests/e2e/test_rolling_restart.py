"""Every service is replaced under load, one process after the other: no request fails (FAULTS L5).

Clients that lose their coordinator go on at another; those of a worker notice nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.testing.fleet import Fleet
from outrider.testing.processes import ServiceProcess
from outrider.testing.resumed import Answer, ask
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request
from outrider.v1 import generation_pb2

AT_ONCE = 8
TOKENS = 200


def numbered(number: int) -> generation_pb2.GenerateRequest:
    """Greedy and seeded ones in turn."""
    return tiny_request(number, tokens=TOKENS, seed=number if number % 2 else None)


async def rolled(fleet: Fleet, processes: Sequence[ServiceProcess]) -> list[Answer]:
    """Stops and starts these in turn while answers are asked for; all the answers."""
    over = asyncio.Event()
    expected = await asyncio.gather(
        *(asyncio.to_thread(ask, fleet.addresses, numbered(number)) for number in range(AT_ONCE))
    )
    answers: list[Answer] = []

    async def client(number: int) -> None:
        addresses = fleet.addresses[number % 2 :] + fleet.addresses[: number % 2]
        while not over.is_set():
            answer = await asyncio.to_thread(ask, addresses, numbered(number))
            assert answer.token_ids == expected[number].token_ids
            assert answer.text == expected[number].text
            answers.append(answer)

    async def roll() -> None:
        try:
            for process in processes:
                code = await asyncio.to_thread(process.stop)
                assert code == 0, process.log.read_text()
                await asyncio.to_thread(process.start)
                for place in range(len(fleet.coordinators)):
                    await fleet.usable(place)
        finally:
            over.set()

    await asyncio.gather(roll(), *(client(number) for number in range(AT_ONCE)))
    return answers


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_all_of_each_service_twice(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, coordinators=2) as fleet:
        workers = [worker.process for worker in fleet.workers]
        answers = await rolled(fleet, [*workers, *fleet.coordinators] * 2)
    assert len(answers) >= AT_ONCE
