"""Measurements without a clock: generations whose every arrival is written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from outrider.bench.cell import Place
from outrider.bench.load import Stint
from outrider.bench.measurement import Measurements
from outrider.bench.observation import Observation
from outrider.bench.result import Result, Terms, result
from outrider.bench.setting import TARGET_ONLY, Setting
from outrider.bench.subject import Subject, Worker
from outrider.bench.turn import Turn
from outrider.v1 import generation_pb2

STEP_S = 0.05
ROUNDS = 20
AUTO = Setting("auto", generation_pb2.SPECULATION_MODE_AUTO)


def generation(number: int, *, round_s: float, per_round: int, tokens: int = 41) -> Observation:
    """One token after 100 ms, then `per_round` with each round of `round_s`, one of whose drafted
    tokens at each place was accepted."""
    seen = Observation(number, asked=10.0)
    when = seen.asked + 0.1
    seen.arrivals.append((when, 1))
    left, rounds = tokens - 1, 0
    while left:
        when += round_s
        rounds += 1
        seen.arrivals.append((when, min(per_round, left)))
        left -= min(per_round, left)
    seen.token_ids = list(range(tokens))
    seen.ended = when
    drafted = rounds if per_round > 1 else 0
    accepted = per_round - 1
    wait_ms = (round_s - STEP_S) * 1000 * rounds if drafted else 0.0
    seen.stats = generation_pb2.SpeculationStats(
        rounds=rounds + 1,
        drafted_rounds=drafted,
        draft_tokens=2 * accepted * drafted,
        accepted_tokens=accepted * drafted,
        accepted_per_position=[drafted] * accepted + [0] * accepted,
        rounds_by_draft_length=[1] + [0] * (2 * accepted - 1) + [drafted] if drafted else [rounds],
        decode_ms=round_s * 1000 * rounds,
        verify_ms=0.8 * STEP_S * 1000 * rounds,
        draft_wait_ms=wait_ms,
    )
    return seen


def stint(setting: Setting, numbers: Sequence[int], *, round_s: float, per_round: int) -> Stint:
    """All at once, at the pace of one."""
    seen = tuple(generation(one, round_s=round_s, per_round=per_round) for one in numbers)
    seconds = max(one.latency_s for one in seen)
    return Stint(
        setting=setting, observations=seen, tokens=sum(one.tokens for one in seen), seconds=seconds
    )


Measured = Callable[..., Measurements]


@pytest.fixture
def measured() -> Measured:
    """Measurements in which a speculating round takes a stated time and brings stated tokens."""

    def make(
        rounds: Mapping[Setting, tuple[float, int]],
        *,
        loads: Sequence[int] = (1, 4),
        turns: int = 8,
        noise: float = 0.02,
        round_trips_ms: Sequence[float | None] = (None,),
    ) -> Measurements:
        rolls = random.Random(1)
        settings = [TARGET_ONLY, *rounds]
        made = Measurements(settings)
        for trip in round_trips_ms:
            for load in loads:
                made.turns[Place(concurrency=load, round_trip_ms=trip)] = [
                    Turn(
                        number,
                        tuple(
                            stint(
                                setting,
                                range(number * load, (number + 1) * load),
                                round_s=round_s * (1.0 + noise * rolls.uniform(-1, 1)),
                                per_round=per_round,
                            )
                            for setting in settings
                            for round_s, per_round in [rounds.get(setting, (STEP_S, 1))]
                        ),
                    )
                    for number in range(turns)
                ]
        return made

    return make


@pytest.fixture
def reported() -> Callable[[Measurements], Result]:
    """A whole result of measurements."""

    def make(measurements: Measurements, stopped: str = "") -> Result:
        workers = [
            Worker(
                pool=pool,
                address=f"127.0.0.1:{port}",
                model=f"org/{pool}-<model>",
                weights_digest="",
                dtype="bfloat16",
                device="cpu",
                weights_bytes=size,
                kv_pool_bytes=1 << 30,
            )
            for pool, port, size in (("target", 7421, 256 << 20), ("draft", 7411, 88 << 20))
        ]
        return result(
            measurements,
            terms=Terms(
                made_at="2026-01-02T03:04:05Z",
                command="outrider bench --kind 'code'",
                prompts="10 built in (code)",
                sampling={"temperature": 0.0, "seed": None},
                max_new_tokens=41,
                settings=[setting.name for setting in measurements.settings],
            ),
            subject=Subject(
                coordinator="127.0.0.1:7400",
                build_version="0.1.0",
                workers=workers,
                client="2 cores, a processor, Linux",
            ),
            stopped=stopped,
        )

    return make
