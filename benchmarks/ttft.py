"""Time to the first token of a short prompt while a long one is read, against alone."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from benchmarks.clients import Clients, Seen
from benchmarks.corpus import Corpus
from benchmarks.results import Row
from benchmarks.services import placement_of, running_targets
from benchmarks.subject import EMBEDDED, Subject

SHORT_PROMPT, LONG_PROMPT = 20, 4000
HEAD_START_S = 0.5
PAUSE_S = 0.5
WARM_UPS = 3
BAR = "≤ 3"


@dataclass(slots=True)
class _Found:
    """Seconds to first tokens."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    long_alone: list[float] = field(default_factory=list)
    long_beside: list[float] = field(default_factory=list)


def measure(*, runs: int = 2, subject: Subject = EMBEDDED) -> Iterator[Row]:
    """One row; `runs` long prompts with as many short ones beside each as fit, one at a time."""
    placement = placement_of(subject)
    with running_targets(subject, {"target": {}}, placement) as targets:
        found = asyncio.run(_measure(targets["target"].coordinator, subject, runs))
    beside, alone = median(found.beside), median(found.alone)
    yield Row(
        subject.row("ttft_beside_prefill"),
        beside * 1000,
        "ms",
        len(found.beside),
        ratio=beside / alone,
        against=f"alone, {alone * 1000:.0f} ms ({len(found.alone)} runs)",
        bar=BAR,
        note=f"largest {max(found.beside) * 1000:.0f} ms; a prompt of {SHORT_PROMPT} tokens while "
        f"one of {LONG_PROMPT} is read, which takes {median(found.long_beside):.1f} s instead of "
        f"{median(found.long_alone):.1f} s; as the client sees it; {subject.note}",
    )


async def _measure(coordinator: str, subject: Subject, runs: int) -> _Found:
    corpus, found = Corpus(subject.folder), _Found()
    async with Clients(coordinator) as clients:

        async def first_token(length: int) -> Seen:
            return await clients.generate(corpus.take(length), output_tokens=1)

        for _ in range(WARM_UPS):
            await first_token(SHORT_PROMPT)
        for run in range(runs):
            found.long_alone.append((await first_token(LONG_PROMPT)).first_token_s)
            reading = asyncio.create_task(first_token(LONG_PROMPT))
            await asyncio.sleep(HEAD_START_S)
            asked, beside = time.perf_counter(), []
            while not reading.done():
                beside.append(await first_token(SHORT_PROMPT))
                await asyncio.sleep(PAUSE_S)
            long = await reading
            inside = [one.first_token_s for one in beside if one.ended < long.ended]
            found.beside.extend(inside)
            found.long_beside.append(long.first_token_s)
            for _ in inside:
                found.alone.append((await first_token(SHORT_PROMPT)).first_token_s)
            print(
                f"  ttft: run {run + 1}, {len(inside)} short prompts within "
                f"{long.ended - asked:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    return found
