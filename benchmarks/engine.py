"""One target's engine in this process, spoken to without a network.

The model loop is the one of the target service; its gRPC server is there and idle.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.subject import CACHE, Subject
from outrider.draft_law import CutLaw
from outrider.engine.handles import StateLost
from outrider.engine.loading import LoadedModel, load_model
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.ticket import Done
from outrider.engine.warm_up import warm_up
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.v1 import common_pb2
from outrider.worker.binding import Binding, opening_handle
from outrider.worker.runtime import Runtime
from target_service.draft_check import ProposedToken
from target_service.judgement import Rule
from target_service.verify_job import VerdictResult, VerifyJob, VerifyTerms

SEED = 1
CANDIDATES = 40
LARGEST_WEIGHT, SMALLEST_WEIGHT = 60_000, 100
WARM_UP_ROWS = 5


@dataclass(frozen=True, slots=True)
class Timed:
    """A round's result, and the seconds from handing it in to having the answer."""

    done: Done[VerdictResult]
    seconds: float


class Generation:
    """One generation on the model loop: its ids, of which the first `length` have KV state."""

    def __init__(self, runtime: Runtime[Any, Any], binding: Binding, terms: VerifyTerms) -> None:
        self._runtime = runtime
        self._binding = binding
        self._terms = terms
        self.prefix = TokenPrefix()

    async def read(self, token_ids: Sequence[int]) -> Timed:
        """Reads ids after those there are, and draws a token after them."""
        base_length = len(self.prefix)
        self.prefix.extend(token_ids)
        return await self._round(base_length, ())

    async def verify(self, drafts: Sequence[ProposedToken]) -> Timed:
        """One round after all ids there are: the last of them and the draft tokens are read.

        The same round may be asked for again: it rolls back what the one before it appended.
        """
        return await self._round(len(self.prefix) - 1, drafts)

    def drafts(self, token_ids: Sequence[int]) -> list[ProposedToken]:
        """Draft tokens drawn from laws that mostly give `token_ids`."""
        seed = derive_seed(Purpose.DRAFT, seed=SEED, choice_index=0)
        path = TokenPrefix(self.prefix.token_ids)
        drafts = []
        for token_id in token_ids:
            others = [other for other in range(CANDIDATES) if other != token_id]
            weights = (LARGEST_WEIGHT, *[SMALLEST_WEIGHT] * len(others))
            law = CutLaw((token_id, *others), weights)
            word = draw_word(seed, position=len(path), digest=path.digest(len(path)))
            drafts.append(ProposedToken(law.draw(word), law))
            path.extend([drafts[-1].token_id])
        return drafts

    async def _round(self, base_length: int, drafts: Sequence[ProposedToken]) -> Timed:
        job = VerifyJob(
            handle_id=self._binding.handle_id,
            owner=self._binding.owner,
            terms=self._terms,
            base_length=base_length,
            prefix_digest=self.prefix.digest(base_length),
            committed_token_ids=self.prefix.token_ids[base_length:],
            drafts=drafts,
            want_bonus=True,
        )
        since = time.perf_counter()
        ticket = self._runtime.loop.submit(job, stream=self._binding.owner)
        done = await ticket.result()
        seconds = time.perf_counter() - since
        if isinstance(done.result, StateLost) or done.result.invalid is not None:
            raise RuntimeError(f"the round was not judged: {done.result}")
        return Timed(done, seconds)


class Engine:
    """A running model loop and what it runs."""

    def __init__(self, runtime: Runtime[Any, Any], loaded: LoadedModel) -> None:
        self.runtime = runtime
        self.loaded = loaded

    @asynccontextmanager
    async def generation(
        self, options: SamplingOptions | None = None, rule: Rule = Rule.REJECTION
    ) -> AsyncIterator[Generation]:
        """A new generation; its state is given back at the end."""
        terms = VerifyTerms(
            options=options or SamplingOptions(),
            seed=SEED,
            choice_index=0,
            prompt_length=1,
            rule=rule,
        )
        async with opening_handle(self.runtime, common_pb2.KvHandle(), scope=b"") as opening:
            yield Generation(self.runtime, await opening, terms)

    @asynccontextmanager
    async def generations(
        self, count: int, options: SamplingOptions | None = None, rule: Rule = Rule.REJECTION
    ) -> AsyncIterator[list[Generation]]:
        """Several at once."""
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(self.generation(options, rule))
                for _ in range(count)
            ]


@asynccontextmanager
async def running_engine(subject: Subject) -> AsyncIterator[Engine]:
    """Loads the target and runs its model loop until the block ends."""
    loaded = load_model(
        subject.model,
        role="target",
        cache_dir=CACHE,
        dtype=subject.dtype,
        device=subject.device,
        threads=subject.threads,
    )
    warm_up(loaded.model, WARM_UP_ROWS)
    server = await start_target(WorkerPlan(loaded.model, dtype=loaded.dtype))
    try:
        yield Engine(server.runtime, loaded)
    finally:
        await server.stop(0.1)
