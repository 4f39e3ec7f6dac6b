"""What shaping and judging cost, against the forward that they follow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.embedded_pair import EmbeddedPair, embedded_pair
from benchmarks.prompts import PROMPTS, chat_request
from benchmarks.results import Row
from outrider.v1 import common_pb2

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
}


def measure(*, dtype: str = "bfloat16", prompts: int = 3) -> Iterator[Row]:
    """A row for each way of sampling, from the times that the target reports for its rounds."""
    for name, (sampling_ms, share) in asyncio.run(_measure(dtype, prompts)).items():
        yield Row(
            f"sampling_share_{name}" if name != "plain" else "sampling_share",
            median(sampling_ms),
            "ms",
            len(sampling_ms),
            ratio=median(share),
            against="the forward it follows",
            bar=BAR,
            note=f"checks, shaping and judging of k = {DRAFT_LENGTH}, {name}; embedded target, "
            f"{dtype}, one thread",
        )


async def _measure(dtype: str, prompts: int) -> dict[str, tuple[list[float], list[float]]]:
    async with embedded_pair(dtype=dtype) as pair:
        return {
            name: await _timings(pair, name, sampling, prompts)
            for name, sampling in SAMPLINGS.items()
        }


async def _timings(
    pair: EmbeddedPair, name: str, sampling: common_pb2.SamplingParams, prompts: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of sampling and their share of the forward, for each full round."""
    print(f"  sampling: {name}", file=sys.stderr, flush=True)
    pair.wire.clear()
    for prompt in PROMPTS[:prompts]:
        request = chat_request(
            prompt, max_new_tokens=OUTPUT_TOKENS, draft_length=DRAFT_LENGTH, temperature=1.0
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
