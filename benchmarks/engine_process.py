"""The model loop on a thread against the same in a process of its own, over raw Verify streams.

The target's event loop has one core and the model another; the clients (this process) take what
both leave. Contenders take turns, run by run. A scripted model sleeps as long as a device would
take, so what is compared is the Python around it.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

from grpc import aio

from benchmarks.placed_target import COMMAND, EMBEDDED, ROOT
from benchmarks.results import Row
from outrider.draft_law import CutLaw
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.rpc.channel import open_channel
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.v1 import common_pb2, target_pb2

ENGINES = ("thread", "process")
MODELS = {"scripted_2ms": "0.002", "scripted_10ms": "0.01", EMBEDDED: EMBEDDED}
COUNTS = (1, 8, 64)
WARM_UP_S, MEASURED_S = 2.0, 2.0
SEED = 5
PROMPT_TOKENS = 100
CREDIT = 3_500
DRAFT_TOKENS = 4
VOCABULARY = 8


@dataclass(slots=True)
class Seen:
    """What the clients of one run saw between `since` and `until`, times of perf_counter.

    `waits`: seconds from one answer of a generation to its next.
    """

    since: float
    until: float
    tokens: int = 0
    waits: list[float] = field(default_factory=list)

    def note(self, before: float, now: float, response: target_pb2.VerifyResponse) -> bool:
        """Takes an answer; whether the run goes on."""
        if response.HasField("verdict") and self.since <= before and now < self.until:
            self.tokens += len(response.verdict.output_token_ids)
            self.waits.append(now - before)
        return now < self.until

    @property
    def tokens_per_s(self) -> float:
        """Of all generations together."""
        return self.tokens / (self.until - self.since)


async def decode_alone(stream: VerifyStream, prompt: Sequence[int], seen: Seen) -> None:
    """One message, then an answer for each token."""
    before = time.perf_counter()
    await stream.send(verify_round(1, prompt, decode=CREDIT))
    while True:
        response = await stream.read()
        now = time.perf_counter()
        if not seen.note(before, now, response):
            return
        before = now


async def verify_drafts(stream: VerifyStream, prompt: Sequence[int], seen: Seen) -> None:
    """The same round over and over: each rolls back what the one before it appended."""
    await stream.ask(verify_round(1, prompt))
    request = verify_round(2, prompt, base=len(prompt) - 1, drafts=_drafts(prompt))
    while True:
        before = time.perf_counter()
        request.round.number += 1
        response = await stream.ask(request)
        if not seen.note(before, time.perf_counter(), response):
            return


Work = Callable[[VerifyStream, Sequence[int], Seen], Coroutine[None, None, None]]
WORKS: dict[str, Work] = {"alone": decode_alone, f"k{DRAFT_TOKENS}": verify_drafts}


def measure(
    *,
    models: Sequence[str] = ("scripted_10ms",),
    works: Sequence[str] = tuple(WORKS),
    counts: Sequence[int] = COUNTS,
    runs: int = 3,
) -> Iterator[Row]:
    """Rows `loop_thread_vs_process_MODEL_WORK_COUNT`: tokens per second in a process.

    `models` of MODELS, `works` of WORKS.
    """
    for model in models:
        with ExitStack() as stack:
            targets = {one: stack.enter_context(_target(one, MODELS[model])) for one in ENGINES}
            for work in works:
                for count in counts:
                    yield _row(f"{model}_{work}_{count}", targets, WORKS[work], count, runs)


def _row(name: str, targets: dict[str, str], work: Work, count: int, runs: int) -> Row:
    found: dict[str, list[Seen]] = {engine: [] for engine in ENGINES}
    for run in range(runs):
        for engine in ENGINES:
            found[engine].append(asyncio.run(_drive(targets[engine], work, count, seed=run)))
    rates = {engine: [one.tokens_per_s for one in found[engine]] for engine in ENGINES}
    ratios = [own / other for own, other in zip(rates["process"], rates["thread"], strict=True)]
    note = "; ".join(f"{engine}: rounds {_times(found[engine])}" for engine in ENGINES)
    print(f"  {name}: ratio {median(ratios):.2f}; {note}", file=sys.stderr, flush=True)
    return Row(
        f"loop_thread_vs_process_{name}",
        median(rates["process"]),
        "tokens/s",
        runs,
        ratio=median(ratios),
        against=f"on a thread, {median(rates['thread']):.1f} tokens/s",
        note=f"ratios {min(ratios):.2f} to {max(ratios):.2f}; {note}",
    )


def _times(runs: Sequence[Seen]) -> str:
    waits = [1000 * wait for run in runs for wait in run.waits]
    return f"p50 {median(waits):.2f} ms, p99 {quantiles(waits, n=100)[98]:.2f} ms"


async def _drive(target: str, work: Work, count: int, *, seed: int) -> Seen:
    """`count` generations at once, each with a prompt that no other has."""
    since = time.perf_counter() + WARM_UP_S
    seen = Seen(since, since + MEASURED_S)
    generator = random.Random(1000 * count + seed)
    async with open_channel(target) as channel:
        prompts = [generator.choices(range(VOCABULARY), k=PROMPT_TOKENS) for _ in range(count)]
        await asyncio.gather(*(_generation(channel, work, prompt, seen) for prompt in prompts))
    return seen


async def _generation(channel: aio.Channel, work: Work, prompt: Sequence[int], seen: Seen) -> None:
    stream = await open_verify(
        channel,
        sampling=common_pb2.SamplingParams(seed=SEED, ignore_eos=True),
        prompt_length=len(prompt),
    )
    await work(stream, prompt, seen)
    stream.call.cancel()


def _drafts(token_ids: Sequence[int]) -> list[common_pb2.DraftToken]:
    """Draft tokens drawn evenly from all ids of the scripted model."""
    law = CutLaw(tuple(range(VOCABULARY)), (1,) * VOCABULARY)
    distribution = common_pb2.Distribution(token_ids=law.token_ids, weights=law.weights)
    seed = derive_seed(Purpose.DRAFT, seed=SEED, choice_index=0)
    prefix, drafts = TokenPrefix(token_ids), []
    for position in range(len(prefix), len(prefix) + DRAFT_TOKENS):
        word = draw_word(seed, position=position, digest=prefix.digest(position))
        drafts.append(common_pb2.DraftToken(token_id=law.draw(word), distribution=distribution))
        prefix.extend([drafts[-1].token_id])
    return drafts


@contextmanager
def _target(engine: str, model: str) -> Iterator[str]:
    """The address of a running target."""
    loop_core, model_core = sorted(os.sched_getaffinity(0))[-2:]
    process = subprocess.Popen(
        [*COMMAND, engine, model, str(loop_core), str(model_core)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
