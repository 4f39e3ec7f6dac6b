"""What a round of one generation costs after a short and after a long context."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.corpus import Corpus
from benchmarks.engine import Timed, running_engine
from benchmarks.results import Row
from benchmarks.subject import EMBEDDED, Subject

CONTEXTS = (100, 1000, 4000)
DRAFT_LENGTH = 4
WARM_UPS = 2


def measure(
    *, contexts: Sequence[int] = CONTEXTS, runs: int = 20, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """For each context a row of rounds with k = 4 and one of single decode steps, in turns."""
    found = asyncio.run(_measure(contexts, runs, subject))
    shortest = min(contexts)
    for context, kinds in found.items():
        for kind, rounds in kinds.items():
            before = median(timed.seconds for timed in found[shortest][kind])
            here = median(timed.seconds for timed in rounds)
            yield Row(
                subject.row(f"{kind}_at_context_{context}"),
                here * 1000,
                "ms",
                len(rounds),
                ratio=here / before if context != shortest else None,
                against=f"context of {shortest}" if context != shortest else "",
                note=f"{_parts(rounds)}; {WHAT[kind]}, model loop without network; {subject.note}",
            )


WHAT = {
    "round": f"one verification of k = {DRAFT_LENGTH}",
    "decode": "one row without draft tokens",
}


async def _measure(
    contexts: Sequence[int], runs: int, subject: Subject
) -> dict[int, dict[str, list[Timed]]]:
    corpus = Corpus(subject.folder)
    found: dict[int, dict[str, list[Timed]]] = {
        context: {kind: [] for kind in WHAT} for context in contexts
    }
    async with running_engine(subject) as engine, engine.generations(len(contexts)) as generations:
        drafts = []
        for context, generation in zip(contexts, generations, strict=True):
            text = corpus.take(context + 1 + DRAFT_LENGTH)
            await generation.read(text[:context])
            generation.prefix.extend(text[context : context + 1])
            drafts.append(generation.drafts(text[context + 1 :]))
        for run in range(WARM_UPS + runs):
            for context, generation, tokens in zip(contexts, generations, drafts, strict=True):
                round_, decode = await generation.verify(tokens), await generation.verify(())
                if run >= WARM_UPS:
                    found[context]["round"].append(round_)
                    found[context]["decode"].append(decode)
    print("  round at context: measured", file=sys.stderr, flush=True)
    return found


def _parts(rounds: Sequence[Timed]) -> str:
    """Where the time went, in milliseconds."""
    timings = [timed.done.timings for timed in rounds]
    forward = median(timing.forward_us for timing in timings) / 1000
    sampling = median(timing.sampling_us for timing in timings) / 1000
    rest = median(
        timed.seconds * 1000 - (timing.forward_us + timing.sampling_us) / 1000
        for timed, timing in zip(rounds, timings, strict=True)
    )
    return f"forward {forward:.1f} ms, sampling {sampling:.2f} ms, hand-over {rest:.2f} ms"
