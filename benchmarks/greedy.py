"""Greedy output with speculation against target-only, token by token, on the embedded pair."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from benchmarks.embedded_pair import EmbeddedPair, embedded_pair
from benchmarks.prompts import chat_request, many_prompts
from benchmarks.results import Row
from benchmarks.ways import fixed
from outrider.engine.loading import LoadedModel
from outrider.engine.model import Chunk

DRAFT_LENGTH = 4
OUTPUT_TOKENS = 64
SMALL_MARGIN = 1e-4
BAR = "at most 1 of 200 prompts, at a top-2 margin < 1e-4"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two greedy outputs part, and how close the target's two best logits are there."""

    prompt: str
    place: int
    margin: float


def measure(*, prompts: int = 12, bfloat16_prompts: int = 6, threads: int = 1) -> Iterator[Row]:
    """How many prompts differ, in float32 and, for information, in bfloat16."""
    for dtype, count, bar in (("float32", prompts, BAR), ("bfloat16", bfloat16_prompts, "")):
        differences, acceptance = asyncio.run(
            find_differences(many_prompts(count), dtype=dtype, threads=threads)
        )
        margins = ", ".join(
            f"token {found.place + 1} at margin {found.margin:.2g}" for found in differences
        )
        yield Row(
            f"greedy_differences_{dtype}",
            len(differences),
            "prompts",
            count,
            ratio=len(differences) / count,
            against="all prompts",
            bar=bar,
            note=f"{OUTPUT_TOKENS} tokens each, k = {DRAFT_LENGTH}, acceptance {acceptance:.3f}; "
            f"embedded pair, {dtype}; first differences: {margins or 'none'}",
        )


async def find_differences(
    prompts: Sequence[str], *, dtype: str, threads: int = 1
) -> tuple[list[Difference], float]:
    """The prompts whose outputs differ, and the share of draft tokens that were accepted."""
    differences = []
    drafted = accepted = 0
    async with embedded_pair(dtype=dtype, threads=threads) as pair:
        for place, prompt in enumerate(prompts):
            pair.wire.clear()
            plain = await _output(pair, prompt, draft_length=0)
            prompt_ids = list(pair.wire.verify_rounds[0].committed_token_ids)
            ours = await _output(pair, prompt, draft_length=DRAFT_LENGTH)
            drafted += sum(len(one.draft_tokens) for one in pair.wire.verify_rounds)
            accepted += sum(verdict.accepted for verdict in pair.wire.verdicts)
            if ours != plain:
                pairs = zip(ours, plain, strict=True)
                first = next(index for index, (one, other) in enumerate(pairs) if one != other)
                margin = top_margin(pair.target, [*prompt_ids, *plain[:first]])
                differences.append(Difference(prompt, first, margin))
            print(
                f"  greedy, {dtype}: {place + 1} of {len(prompts)}, {len(differences)} differ",
                file=sys.stderr,
                flush=True,
            )
    return differences, accepted / drafted


def top_margin(target: LoadedModel, token_ids: Sequence[int]) -> float:
    """The logit of the best token less that of the second after `token_ids`.

    The model is to be idle: this forward runs beside its thread.
    """
    model = target.model
    with torch.inference_mode():
        (rows,) = model.forward([Chunk(model.new_sequence(), token_ids, rows=1)])
    best, second = map(float, rows[0].double().topk(2).values)
    return best - second


async def _output(pair: EmbeddedPair, prompt: str, *, draft_length: int) -> list[int]:
    request = chat_request(
        prompt, max_new_tokens=OUTPUT_TOKENS, way=fixed(draft_length), temperature=0.0
    )
    output = await pair.cluster.generate(request)
    return output.token_ids
