"""The embedded pair through real processes: speed with draft tokens against the target alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

from benchmarks.prompts import PROMPTS, chat_request
from benchmarks.results import Row
from benchmarks.services import Placement, embedded_programs, pinned, running_services, unpinned
from benchmarks.ways import synchronous
from outrider.client import Client
from outrider.v1 import generation_pb2

OUTPUT_TOKENS = 96
WARM_UP_TOKENS = 24
DEFAULT_DRAFT_LENGTH = 4


@dataclass(frozen=True, slots=True)
class _Run:
    tokens_per_s: float
    """As the client sees it, from the first chunk to the last."""
    stats: generation_pb2.SpeculationStats


@dataclass(frozen=True, slots=True)
class _Setting:
    """What one row is about."""

    dtype: str
    placement: Placement
    place: str
    draft_lengths: Sequence[int]


def measure(*, prompts: int = 3) -> Iterator[Row]:
    """Rows for each number type, placement, temperature and draft length."""
    settings = (
        _Setting("bfloat16", pinned(), "pinned", (1, 2, 3, 4, 5)),
        _Setting("bfloat16", unpinned(), "unpinned", (DEFAULT_DRAFT_LENGTH,)),
        _Setting("float32", pinned(), "pinned", (2, DEFAULT_DRAFT_LENGTH)),
    )
    for setting in settings:
        programs = embedded_programs(dtype=setting.dtype, threads=setting.placement.threads)
        with running_services(programs, setting.placement) as client:
            for temperature in (0.0, 1.0):
                yield from _compare(client, setting, temperature, PROMPTS[:prompts])


def _compare(
    client: Client, setting: _Setting, temperature: float, prompts: Sequence[str]
) -> Iterator[Row]:
    """Each prompt by the target alone and with a draft, in turns."""
    kind = "greedy" if temperature == 0.0 else f"t{temperature:g}"
    for draft_length in setting.draft_lengths:
        for length in (0, draft_length):
            _generate(client, prompts[0], length, temperature, tokens=WARM_UP_TOKENS)
        alone, drafted = [], []
        for prompt in prompts:
            alone.append(_generate(client, prompt, 0, temperature))
            drafted.append(_generate(client, prompt, draft_length, temperature))
        print(
            f"  embedded: {setting.dtype}, {setting.place}, {kind}, k = {draft_length}",
            file=sys.stderr,
            flush=True,
        )
        tail = f"{setting.dtype}_{setting.place}_{kind}_k{draft_length}"
        yield from _rows(tail, setting, alone, drafted)


def _rows(
    tail: str, setting: _Setting, alone: Sequence[_Run], drafted: Sequence[_Run]
) -> Iterator[Row]:
    pairs = zip(drafted, alone, strict=True)
    ratios = [ours.tokens_per_s / theirs.tokens_per_s for ours, theirs in pairs]
    acceptance = sum(run.stats.accepted_tokens for run in drafted) / sum(
        run.stats.draft_tokens for run in drafted
    )
    missed = sum(run.stats.draft_missed_rounds for run in drafted)
    where = f"embedded pair, {setting.dtype}; {setting.placement.words}"
    yield Row(
        f"embedded_vs_target_only_{tail}",
        median(run.tokens_per_s for run in drafted),
        "tokens/s",
        len(drafted),
        ratio=median(ratios),
        against=f"target only, {median(run.tokens_per_s for run in alone):.1f} tokens/s",
        note=f"ratios {min(ratios):.2f} to {max(ratios):.2f} over prompts; verify "
        f"{_per_round(drafted, 'verify_ms'):.0f} ms, draft {_per_round(drafted, 'draft_ms'):.0f} "
        f"ms, plain step {_per_round(alone, 'verify_ms'):.0f} ms; {missed} rounds without the "
        f"draft; {where}",
    )
    yield Row(
        f"embedded_tokens_per_round_{tail}",
        median(run.stats.mean_output_tokens_per_round for run in drafted),
        "tokens",
        len(drafted),
        note=f"acceptance {acceptance:.3f} of draft tokens; {where}",
    )


def _per_round(runs: Sequence[_Run], name: str) -> float:
    """Milliseconds; the first round is not timed."""
    return median(float(getattr(run.stats, name)) / (run.stats.rounds - 1) for run in runs)


def _generate(
    client: Client,
    prompt: str,
    draft_length: int,
    temperature: float,
    *,
    tokens: int = OUTPUT_TOKENS,
) -> _Run:
    request = chat_request(
        prompt, max_new_tokens=tokens, way=synchronous(draft_length), temperature=temperature
    )
    first_at = last_at = 0.0
    first_count = 0
    summary = generation_pb2.GenerationSummary()
    with closing(client.generate(request)) as events:
        for event in events:
            if isinstance(event, generation_pb2.GenerationSummary):
                summary = event
                continue
            last_at = time.perf_counter()
            if not first_at:
                first_at, first_count = last_at, len(event.token_ids)
    rate = (summary.usage.output_tokens - first_count) / (last_at - first_at)
    return _Run(rate, summary.speculation)
