"""Hop overhead: what a round costs beyond the model.

A round's time less the forward and sampling time that both workers report for it; one generation,
synchronous rounds, separate processes on loopback.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

from benchmarks.prompts import PROMPTS, chat_request
from benchmarks.recording_coordinator import RoundRecord, cycles, read_records
from benchmarks.results import Row
from benchmarks.services import Placement, Programs, embedded_programs, pinned, running_services
from benchmarks.ways import synchronous
from outrider.v1 import common_pb2, generation_pb2

BAR = "≤ 1 ms p50"
DRAFT_LENGTH = 4
SCRIPTED_TOKENS = 1500
SCRIPTED_GENERATIONS = 3
EMBEDDED_TOKENS = 128
SLEEPING_TARGET_S, SLEEPING_DRAFT_S = "0.030", "0.006"
SLEEPING_TOKENS = 300


def measure(*, prompts: int = 3) -> Iterator[Row]:
    """Rows for scripted workers and for the embedded pair."""
    placement = pinned()
    scripted = Programs(
        target=["benchmarks.scripted_worker", "target"],
        draft=["benchmarks.scripted_worker", "draft"],
        coordinator=["benchmarks.recording_coordinator"],
    )
    requests = [_scripted_request(seed) for seed in range(SCRIPTED_GENERATIONS)]
    records = _record(scripted, placement, requests)
    yield from _rows("scripted", records, f"scripted workers; {placement.words}")
    # As idle between messages as the embedded pair's services, but with nothing to push their
    # code and data out of the processor's caches.
    sleeping = Programs(
        target=["benchmarks.scripted_worker", "target", SLEEPING_TARGET_S],
        draft=["benchmarks.scripted_worker", "draft", SLEEPING_DRAFT_S],
        coordinator=["benchmarks.recording_coordinator"],
    )
    records = _record(sleeping, placement, [_scripted_request(0, length=SLEEPING_TOKENS)])
    words = f"scripted workers that sleep {SLEEPING_TARGET_S} and {SLEEPING_DRAFT_S} s a forward"
    yield from _rows("sleeping", records, f"{words}; {placement.words}")
    for dtype in ("bfloat16", "float32"):
        programs = embedded_programs(dtype=dtype, threads=placement.threads)
        requests = [
            chat_request(
                prompt,
                max_new_tokens=EMBEDDED_TOKENS,
                way=synchronous(DRAFT_LENGTH),
                temperature=1.0,
            )
            for prompt in PROMPTS[:prompts]
        ]
        records = _record(programs, placement, requests)
        yield from _rows(f"embedded_{dtype}", records, f"embedded pair, {dtype}; {placement.words}")


def _record(
    programs: Programs,
    placement: Placement,
    requests: Sequence[generation_pb2.GenerateRequest],
) -> list[RoundRecord]:
    """The rounds of each request, one after the other; those of a warm-up are left out."""
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        path = Path(folder) / "rounds.json"
        recorded = Programs(
            target=programs.target,
            draft=programs.draft,
            coordinator=["benchmarks.recording_coordinator", str(path)],
        )
        with running_services(recorded, placement) as client:
            for request in (requests[0], *requests):
                for _ in client.generate(request):
                    pass
            print("  measured", file=sys.stderr, flush=True)
        records = read_records(path)
    warm_up = records[0].generation
    return [record for record in records if record.generation != warm_up and record.drafted]


def _rows(name: str, records: Sequence[RoundRecord], note: str) -> Iterator[Row]:
    hops = [record.hop_us / 1000 for record in records]
    model = median(record.model_us / 1000 for record in records)
    note = f"k = {DRAFT_LENGTH}, model time {model:.2f} ms per round; {note}"
    yield Row(f"hop_{name}_p50", median(hops), "ms", len(hops), bar=BAR, note=note)
    yield Row(f"hop_{name}_p95", quantiles(hops, n=20)[-1], "ms", len(hops), note=note)
    whole = [(cycle_us - record.model_us) / 1000 for cycle_us, record in cycles(records)]
    yield Row(
        f"hop_{name}_cycle_p50",
        median(whole),
        "ms",
        len(whole),
        note=f"from round to round, text and streaming to the client included; {note}",
    )


def _scripted_request(
    seed: int, *, length: int = SCRIPTED_TOKENS
) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(
        tokens=generation_pb2.TokenPrompt(token_ids=[1, 2, 3, 4]),
        max_new_tokens=length,
        sampling=common_pb2.SamplingParams(
            temperature=1.0, seed=seed, verification=common_pb2.VERIFICATION_REJECTION
        ),
        speculation=synchronous(DRAFT_LENGTH),
    )
