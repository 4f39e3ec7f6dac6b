"""Settings of the target, one against the other: compilation, and where the model loop runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.results import Row
from benchmarks.subject import EMBEDDED, Subject
from benchmarks.target_only import measure_variants
from outrider.settings import TargetSettings

COMPILATION = {"off": {"compile": "false"}, "on": {"compile": "true"}}
PLACES = {"thread": {"engine": "thread"}, "process": {"engine": "process"}}
COMPILE_COUNTS = (1, 8)
LOOP_COUNTS = (64,)


def measure_compile(
    *, counts: Sequence[int] = COMPILE_COUNTS, runs: int = 3, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """Tokens per second with `--compile` against without."""
    return _measure("compile_off_on", COMPILATION, counts, runs, subject)


def measure_loop(
    *, counts: Sequence[int] = LOOP_COUNTS, runs: int = 3, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """Tokens per second with the model loop in a process of its own against in a thread."""
    return _measure("loop_thread_vs_process", PLACES, counts, runs, subject)


def _measure(
    name: str,
    variants: Mapping[str, Mapping[str, str]],
    counts: Sequence[int],
    runs: int,
    subject: Subject,
) -> Iterator[Row]:
    missing = {
        setting
        for settings in variants.values()
        for setting in settings
        if setting not in TargetSettings.model_fields
    }
    if missing:
        words = ", ".join(sorted(missing))
        print(f"  {name}: skipped, a target has no setting {words}", file=sys.stderr, flush=True)
        return
    yield from measure_variants(name, variants, counts=counts, runs=runs, subject=subject)
