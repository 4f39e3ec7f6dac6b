"""Workers that die, freeze, vanish, slow down or break off while 500 + 500 answers are streamed.

Real processes, two targets. No answer fails, and each is what it would have been
(FAULTS B4, G11, I1, I2).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.testing.fleet import Fleet
from outrider.testing.tiny_fleet import tiny_fleet, tiny_request
from outrider.testing.trouble import Troublemaker
from outrider.testing.watched import Watched, ask_all, watching
from outrider.v1 import generation_pb2
from tests.e2e.near_ties import NearTies

AT_ONCE = 6


def requests(count: int, *, tokens: int) -> list[generation_pb2.GenerateRequest]:
    """Greedy and seeded ones in turn."""
    return [
        tiny_request(number // 2, tokens=tokens, seed=number if number % 2 else None)
        for number in range(count)
    ]


def alone(request: generation_pb2.GenerateRequest) -> generation_pb2.GenerateRequest:
    """The same, of the target alone."""
    plain = generation_pb2.GenerateRequest()
    plain.CopyFrom(request)
    plain.speculation.mode = generation_pb2.SPECULATION_MODE_OFF
    return plain


async def troubled(fleet: Fleet, count: int, *, tokens: int, rounds: int, longest_s: float) -> None:
    """Asks over and over until each fault has come to each pool `rounds` times.

    `longest_s`: of one fault; a silent target is left after three seconds.
    """
    asked = requests(count, tokens=tokens)
    ties = NearTies()
    async with watching(fleet.addresses[0]) as ask:
        calm = await ask_all(ask, [alone(request) for request in asked], at_once=AT_ONCE)
        assert not [one.error for one in calm if one.error]
        makers = [
            Troublemaker(fleet, pool, random.Random(place), longest_s=longest_s)
            for place, pool in enumerate((fleet.targets, fleet.drafts))
        ]

        async def make_trouble() -> None:
            for _ in range(rounds):
                async with asyncio.TaskGroup() as group:
                    for maker in makers:
                        group.create_task(maker.go_round())

        trouble = asyncio.create_task(make_trouble())
        answered: list[Watched] = []
        try:
            while not trouble.done() or len(answered) < count:
                answered += await ask_all(ask, asked, at_once=AT_ONCE)
                judge(ties, asked, calm, answered[-count:])
        finally:
            trouble.cancel()
        await asyncio.gather(trouble)
    report(makers, answered)
    assert sum(speculation(one).target_moves for one in answered) > 0


def judge(
    ties: NearTies,
    asked: Sequence[generation_pb2.GenerateRequest],
    calm: Sequence[Watched],
    answered: Sequence[Watched],
) -> None:
    """Nothing failed, nothing is lost, repeated or different."""
    failed = [one.error for one in answered if one.error is not None]
    assert not failed
    parted = 0
    for request, was, now in zip(asked, calm, answered, strict=True):
        assert now.gapless
        assert now.summary is not None
        seed = request.sampling.seed if request.sampling.HasField("seed") else None
        assert ties.equal(request.text, now.token_ids, was.token_ids, seed=seed)
        parted += now.token_ids != was.token_ids
    assert parted <= 1 + len(asked) // 200


def report(makers: Sequence[Troublemaker], answered: Sequence[Watched]) -> None:
    """Shown with `pytest -s`."""
    stalls = sorted(max(one.stalls_s, default=0.0) for one in answered)
    moves = Counter(speculation(one).target_moves for one in answered)
    print(
        f"\n{len(answered)} answers; faults of targets {dict(makers[0].made)}, of drafts "
        f"{dict(makers[1].made)}; moves to another target {dict(moves)}; longest stall of each: "
        f"p50 {stalls[len(stalls) // 2]:.3f} s, p99 {stalls[len(stalls) * 99 // 100]:.3f} s, "
        f"max {stalls[-1]:.3f} s"
    )


def speculation(one: Watched) -> generation_pb2.SpeculationStats:
    assert one.summary is not None
    return one.summary.speculation


@pytest.mark.timeout(600)
async def test_every_fault_once(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path, drafts=1) as fleet:
        await troubled(fleet, 24, tokens=64, rounds=1, longest_s=1.0)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_thousand_answers(tmp_path: Path) -> None:
    async with tiny_fleet(tmp_path) as fleet:
        await troubled(fleet, 1000, tokens=96, rounds=6, longest_s=6.0)
