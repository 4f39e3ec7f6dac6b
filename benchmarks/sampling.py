"""What shaping and judging cost, against the forward that they follow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.batched_verify import GENERATIONS, WARM_UPS, pending_rounds, together
from benchmarks.corpus import Corpus
from benchmarks.embedded_pair import EmbeddedPair, embedded_pair
from benchmarks.engine import running_engine
from benchmarks.prompts import PROMPTS, chat_request
from benchmarks.results import Row
from benchmarks.subject import EMBEDDED, Subject
from benchmarks.ways import synchronous
from outrider.v1 import common_pb2
from outrider.worker.sampling import sampling_options
from target_service.messages import rule_of

DRAFT_LENGTH = 4
OUTPUT_TOKENS = 64
BAR = "≤ 0.10"
SAMPLINGS = {
    "plain": common_pb2.SamplingParams(temperature=1.0),
    "greedy": common_pb2.SamplingParams(temperature=0.0),
    "top_k": common_pb2.SamplingParams(temperature=0.8, top_k=50),
    "top_p": common_pb2.SamplingParams(temperature=0.8, top_p=0.95),
    "top_k_top_p_min_p": common_pb2.SamplingParams(
        temperature=0.8, top_k=50, top_p=0.95, min_p=0.02
    ),
    "coupled": common_pb2.SamplingParams(
        temperature=1.0, verification=common_pb2.VERIFICATION_COUPLED
    ),
}


def measure(
    *, dtype: str = "bfloat16", prompts: int = 3, kinds: Sequence[str] = tuple(SAMPLINGS)
) -> Iterator[Row]:
    """A row for each way of sampling, from the times that the target reports for its rounds."""
    for kind, (sampling_ms, share) in asyncio.run(_measure(dtype, prompts, kinds)).items():
        note = f"checks, shaping and judging of k = {DRAFT_LENGTH}, {kind}; embedded target, "
        yield _row("sampling_share", kind, sampling_ms, share, note=f"{note}{dtype}, one thread")


def measure_batch(
    *, runs: int = 15, kinds: Sequence[str] = tuple(SAMPLINGS), subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """The same with GENERATIONS generations in the batch: all their sampling, one forward."""
    for kind, (sampling_ms, share) in asyncio.run(_measure_batch(subject, runs, kinds)).items():
        note = f"of {GENERATIONS} generations together, k = {DRAFT_LENGTH}, {kind}; {subject.note}"
        name = subject.row(f"sampling_share_batch_{GENERATIONS}")
        yield _row(name, kind, sampling_ms, share, note=note)


def _row(
    name: str, kind: str, sampling_ms: Sequence[float], share: Sequence[float], *, note: str
) -> Row:
    return Row(
        name if kind == "plain" else f"{name}_{kind}",
        median(sampling_ms),
        "ms",
        len(sampling_ms),
        ratio=median(share),
        against="the forward it follows",
        bar=BAR,
        note=note,
    )


async def _measure_batch(
    subject: Subject, runs: int, kinds: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    corpus, found = Corpus(subject.folder), {}
    async with running_engine(subject) as engine:
        for kind in kinds:
            sampling_ms, share = [], []
            options, rule = sampling_options(SAMPLINGS[kind]), rule_of(SAMPLINGS[kind].verification)
            async with pending_rounds(engine, corpus, options, rule) as rounds:
                for _ in range(WARM_UPS + runs):
                    timings = [timed.done.timings for timed in await together(rounds)]
                    # Those that missed the first forward shared a second one.
                    forwards = sum(one.forward_us / one.batch_size for one in timings)
                    sampling = sum(one.sampling_us for one in timings)
                    sampling_ms.append(sampling / 1000)
                    share.append(sampling / forwards)
            found[kind] = sampling_ms[WARM_UPS:], share[WARM_UPS:]
            print(f"  sampling of {GENERATIONS}: {kind}", file=sys.stderr, flush=True)
    return found


async def _measure(
    dtype: str, prompts: int, kinds: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    async with embedded_pair(dtype=dtype) as pair:
        return {kind: await _timings(pair, kind, SAMPLINGS[kind], prompts) for kind in kinds}


async def _timings(
    pair: EmbeddedPair, name: str, sampling: common_pb2.SamplingParams, prompts: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of sampling and their share of the forward, for each full round."""
    print(f"  sampling: {name}", file=sys.stderr, flush=True)
    pair.wire.clear()
    for prompt in PROMPTS[:prompts]:
        request = chat_request(
            prompt, max_new_tokens=OUTPUT_TOKENS, way=synchronous(DRAFT_LENGTH), temperature=1.0
        )
        request.sampling.MergeFrom(sampling)
        await pair.cluster.generate(request)
    timings = [
        verdict.timings
        for message, verdict in zip(pair.wire.verify_rounds, pair.wire.verdicts, strict=True)
        if len(message.draft_tokens) == DRAFT_LENGTH
    ]
    return (
        [timing.sampling_us / 1000 for timing in timings],
        [timing.sampling_us / timing.forward_us for timing in timings],
    )
