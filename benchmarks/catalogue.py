"""What can be measured: names, how long each takes, and which rows can be had alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import (
    batched_verify,
    common_price,
    coupled_acceptance,
    draft_ahead,
    draft_step,
    drafters,
    embedded,
    embedded_auto,
    engine_process,
    failover,
    greedy,
    guard,
    hop,
    kv_bookkeeping,
    limits,
    overload,
    prefix_reuse,
    round_at_context,
    sampling,
    settings_compared,
    target_only,
    ttft,
    wire,
)
from benchmarks.results import Row
from outrider.testing.emulated import Law

Measure = Callable[..., Iterable[Row]]
ENGINE = "engine"
"""Names all benchmarks of the engine."""
SPECULATION = "speculation"
"""Names all benchmarks of when and how far to speculate."""
TROUBLE = "trouble"
"""Names all benchmarks of failures and of too much to do."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One measurement. `seconds`: about how long it takes on two cores, loading included."""

    name: str
    title: str
    seconds: int
    measure: Measure
    options: Mapping[str, Any] = field(default_factory=dict)


PAIR = (
    Benchmark("wire", "Bytes on the wire", 100, wire.measure),
    Benchmark("hop", "Hop overhead", 120, hop.measure),
    Benchmark("sampling", "Sampling", 60, sampling.measure),
    Benchmark("greedy", "Greedy output, with and without speculation", 120, greedy.measure),
    Benchmark("embedded", "Speed of the embedded pair", 320, embedded.measure),
)
ENGINE_ROWS = (
    Benchmark("batched_verify_8", "Verifications together", 45, batched_verify.measure),
    Benchmark("target_only", "The target alone", 320, target_only.measure),
    Benchmark("target_rounds", "Gathering", 80, target_only.measure_rounds),
    Benchmark("ttft_beside_prefill", "A short prompt beside a long one", 100, ttft.measure),
    Benchmark("rollback_us", "Rollback", 2, kv_bookkeeping.measure_rollback),
    Benchmark("handle_lookup_us", "Handles", 2, kv_bookkeeping.measure_lookup),
    Benchmark("sampling_share_batch_8", "Sampling of eight", 45, sampling.measure_batch),
    Benchmark("round_at_context", "Rounds at a context", 45, round_at_context.measure),
    Benchmark("prefix_reuse", "Prefix reuse", 90, prefix_reuse.measure),
    Benchmark("compile_off_on", "Compilation", 160, settings_compared.measure_compile),
    Benchmark("loop_thread_vs_process", "Place of the loop", 60, settings_compared.measure_loop),
    Benchmark(
        "loop_scripted",
        "Place of a fast model's loop",
        60,
        engine_process.measure,
        {"counts": engine_process.COUNTS[-1:]},
    ),
    Benchmark("limits", "What limits a forward", 60, limits.measure),
)
SPECULATION_ROWS = (
    Benchmark("draft_ahead", "Draft-ahead over a slow hop", 460, draft_ahead.measure),
    Benchmark("guard", "Speculation where it may not pay", 460, guard.measure),
    Benchmark("price_64", "Many generations, a price per row", 160, common_price.measure),
    Benchmark("embedded_auto", "The embedded pair by default", 300, embedded_auto.measure),
    Benchmark(
        "draft_ahead_embedded",
        "Draft-ahead of the embedded pair",
        240,
        draft_ahead.measure_embedded,
    ),
    Benchmark("coupled_acceptance", "Acceptance of COUPLED", 150, coupled_acceptance.measure),
)
TROUBLE_ROWS = (
    Benchmark("failover", "Streams whose workers are in trouble", 900, failover.measure),
    Benchmark("overload", "Ten times too many requests", 70, overload.measure),
)
PARTS = (
    Benchmark("drafters", "Ways to draft, by kind of task", 1200, drafters.measure),
    Benchmark("draft_step", "A step of the embedded draft", 40, draft_step.measure),
    Benchmark(
        "guard_grid",
        "Speculation where it may not pay, the whole grid",
        2600,
        guard.measure,
        {"name": "guard_grid", "cells": guard.GRID},
    ),
    Benchmark(
        "guard_greedy",
        "Speculation where it may not pay, greedy",
        420,
        guard.measure,
        {"name": "guard_greedy", "law": Law.PEAKED},
    ),
    *(
        Benchmark(
            f"batched_verify_8_{dtype}",
            "Verifications together",
            25,
            batched_verify.measure,
            {"dtypes": (dtype,)},
        )
        for dtype in batched_verify.DTYPES
    ),
    *(
        Benchmark(
            f"target_only_{count}",
            "The target alone",
            40 + 2 * count,
            target_only.measure,
            {"counts": (count,)},
        )
        for count in target_only.COUNTS
    ),
    *(
        Benchmark(
            f"target_rounds_{count}",
            "Gathering",
            30 + count,
            target_only.measure_rounds,
            {"counts": (count,)},
        )
        for count in target_only.ROUND_COUNTS
    ),
    *(
        Benchmark(
            f"round_at_context_{context}",
            "Rounds at a context",
            25,
            round_at_context.measure,
            {"contexts": (context,)},
        )
        for context in round_at_context.CONTEXTS
    ),
    *(
        Benchmark(
            f"loop_scripted_{count}",
            "Place of a fast model's loop",
            60,
            engine_process.measure,
            {"counts": (count,)},
        )
        for count in engine_process.COUNTS
    ),
    Benchmark("sampling_share", "Sampling", 25, sampling.measure, {"kinds": ("plain",)}),
)

GROUPS: Mapping[str, tuple[Benchmark, ...]] = {
    ENGINE: ENGINE_ROWS,
    SPECULATION: SPECULATION_ROWS,
    TROUBLE: TROUBLE_ROWS,
}


def known_names() -> Sequence[str]:
    """Whatever `find` knows."""
    every = (*PAIR, *ENGINE_ROWS, *SPECULATION_ROWS, *TROUBLE_ROWS, *PARTS)
    return [*GROUPS, *(one.name for one in every)]


def find(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of these names; where there are none, all of speed. Raises ValueError."""
    every = (*PAIR, *ENGINE_ROWS, *SPECULATION_ROWS, *TROUBLE_ROWS, *PARTS)
    by_name = {**{one.name: (one,) for one in every}, **GROUPS}
    unknown = sorted(set(names) - set(by_name))
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}")
    if not names:
        return [*PAIR, *ENGINE_ROWS, *SPECULATION_ROWS]
    return [one for name in names for one in by_name[name]]
