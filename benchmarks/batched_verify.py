"""Eight verifications at once against the same eight one by one, in the engine alone."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from statistics import median

from benchmarks.corpus import Corpus
from benchmarks.engine import Engine, Generation, Timed, running_engine
from benchmarks.results import Row
from benchmarks.subject import EMBEDDED, Subject
from outrider.engine.sampling_options import SamplingOptions
from target_service.draft_check import ProposedToken
from target_service.judgement import Rule

GENERATIONS = 8
CONTEXT = 200
DRAFT_LENGTH = 4
WARM_UPS = 2
BAR = "≥ 3"
DTYPES = ("bfloat16", "float32")

Rounds = Sequence[tuple[Generation, Sequence[ProposedToken]]]


def measure(
    *, dtypes: Sequence[str] = DTYPES, runs: int = 15, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """A row for each number type: how many times faster the eight are together."""
    for dtype in dtypes:
        yield asyncio.run(_measure(subject.of_dtype(dtype), runs))


@asynccontextmanager
async def pending_rounds(
    engine: Engine,
    corpus: Corpus,
    options: SamplingOptions | None = None,
    rule: Rule = Rule.REJECTION,
) -> AsyncIterator[Rounds]:
    """GENERATIONS generations that have read CONTEXT ids, and draft tokens for each."""
    async with engine.generations(GENERATIONS, options, rule) as generations:
        rounds = []
        for generation in generations:
            text = corpus.take(CONTEXT + 1 + DRAFT_LENGTH)
            await generation.read(text[:CONTEXT])
            generation.prefix.extend(text[CONTEXT : CONTEXT + 1])
            rounds.append((generation, generation.drafts(text[CONTEXT + 1 :])))
        yield rounds


async def together(rounds: Rounds) -> list[Timed]:
    """All at once."""
    return await asyncio.gather(*(generation.verify(drafts) for generation, drafts in rounds))


async def _measure(subject: Subject, runs: int) -> Row:
    corpus = Corpus(subject.folder)
    batched_s, single_s = [], []
    sizes: list[int] = []
    async with running_engine(subject) as engine, pending_rounds(engine, corpus) as rounds:
        for run in range(WARM_UPS + runs):
            since = time.perf_counter()
            for generation, drafts in rounds:
                await generation.verify(drafts)
            alone = time.perf_counter()
            verdicts = await together(rounds)
            ended = time.perf_counter()
            if run >= WARM_UPS:
                single_s.append(alone - since)
                batched_s.append(ended - alone)
                sizes.extend(verdict.done.timings.batch_size for verdict in verdicts)
    name = f"batched_verify_{GENERATIONS}_{subject.dtype}"
    print(f"  {name}: measured", file=sys.stderr, flush=True)
    ratios = [single / batched for single, batched in zip(single_s, batched_s, strict=True)]
    return Row(
        subject.row(name),
        median(batched_s) * 1000,
        "ms",
        runs,
        ratio=median(ratios),
        against=f"one by one, {median(single_s) * 1000:.0f} ms for all, as times faster",
        bar=BAR,
        note=f"ratios {min(ratios):.2f} to {max(ratios):.2f}; {GENERATIONS} verifications of k = "
        f"{DRAFT_LENGTH} after {CONTEXT} tokens, mean batch {sum(sizes) / len(sizes):.1f}, model "
        f"loop without network; {subject.note}",
    )
