"""Generations that come, are cancelled at any point, break off and come back, in too small a pool.

Two canary prompts are asked again and again among them. What they answer tells whether a
generation ever read another's state; the pool tells whether all blocks came back.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from outrider.draft_law import POINT_MASS
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.loop import Done, ModelLoop
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.transformers_model import TransformersModel
from outrider.errors import PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.testing.tiny_models import TARGET_SEED, tiny_llama
from target_service.draft_check import ProposedToken
from target_service.verification import verify
from target_service.verify_job import VerdictResult, VerifyJob, VerifyTerms

VOCABULARY = 64
BLOCK_SIZE = 4
BLOCKS = 40
"""Room for two or three of the generations below, of which eight run at once."""
CALLERS = 8
NEW_TOKENS = 12
SHARED = [7, 3, 9, 1, 4, 4, 8, 2, 6, 5, 5, 1]
CANARIES = ([*SHARED, 11, 12, 13, 14, 15, 16], [*SHARED, 21, 22, 23])
GREEDY = SamplingOptions(temperature=0.0)


@dataclass
class Worker:
    """A target's engine without its network."""

    model: TransformersModel
    handles: HandleTable = field(init=False)
    loop: ModelLoop[VerifyJob, VerdictResult | StateLost] = field(init=False)

    def __post_init__(self) -> None:
        self.handles = HandleTable(self.model.new_sequence, max_handles=4 * CALLERS)
        self.loop = ModelLoop(
            self.model, lambda job: verify(job, model=self.model, handles=self.handles)
        )

    async def open(self, handle_id: str | None, owner: str) -> str:
        return await self.loop.call(
            lambda: self.handles.open(handle_id, owner=owner, scope=b"tenant")
        )


def small_model(blocks: int) -> TransformersModel:
    model = tiny_llama(seed=TARGET_SEED, vocabulary_size=VOCABULARY, context_length=128)
    layout = probe_kv_layout(model, block_size=BLOCK_SIZE)
    return TransformersModel(model, kv=KvPool(layout, blocks=blocks))


async def generate(
    worker: Worker, handle_id: str, owner: str, prompt: Sequence[int], *, dice: random.Random
) -> list[int]:
    """Greedy output, round by round, with drafts that are right now and then."""
    prefix, kept = TokenPrefix(prompt), 0
    while (room := len(prompt) + NEW_TOKENS - len(prefix)) > 0:
        base = min(kept, len(prefix) - 1)
        drafts = [
            ProposedToken(dice.randrange(VOCABULARY), POINT_MASS)
            for _ in range(min(dice.randrange(4), room - 1))
        ]
        job = VerifyJob(
            handle_id=handle_id,
            owner=owner,
            terms=VerifyTerms(GREEDY, seed=1, choice_index=0, prompt_length=len(prompt)),
            base_length=base,
            prefix_digest=prefix.digest(base),
            committed_token_ids=list(prefix.token_ids[base:]),
            drafts=drafts,
            want_bonus=True,
        )
        done: Done[VerdictResult | StateLost] = await worker.loop.submit(job, stream=owner).result()
        if isinstance(done.result, StateLost):
            if base == 0:
                raise PoolUnavailable("another stream took over this KV state")
            kept = done.result.kept_length
        else:
            prefix.extend(done.result.output_token_ids)
            kept = done.result.kept_length
    return list(prefix.token_ids[len(prompt) :])


async def expected_answers() -> list[list[int]]:
    worker = Worker(small_model(1000))
    worker.loop.start()
    answers = [
        await generate(worker, await worker.open(None, "a"), "a", prompt, dice=random.Random(1))
        for prompt in CANARIES
    ]
    await worker.loop.close()
    return answers


@dataclass
class Caller:
    """Asks for one generation after another and lets go of most of them at some point."""

    worker: Worker
    answers: list[list[int]]
    dice: random.Random
    left_behind: list[str]
    whole: int = 0
    cancelled: int = 0
    taken_over: int = 0

    async def one(self) -> None:
        owner, dice = secrets.token_hex(8), self.dice
        canary = dice.randrange(3)
        prompt = (
            CANARIES[canary]
            if canary < 2
            else [*SHARED, *(dice.randrange(VOCABULARY) for _ in range(dice.randrange(1, 60)))]
        )
        known = dice.choice([None, dice.choice(self.left_behind)]) if self.left_behind else None
        handle_id = await self.worker.open(known, owner)
        task = asyncio.create_task(generate(self.worker, handle_id, owner, prompt, dice=dice))
        if dice.random() < 0.7:
            await asyncio.sleep(dice.random() * 0.008)
            task.cancel()
        try:
            output = await task
        except asyncio.CancelledError:
            self.cancelled += 1
        except PoolUnavailable:
            self.taken_over += 1
        else:
            if canary < 2:
                assert output == self.answers[canary]
                self.whole += 1
        await self.leave(handle_id, owner)

    async def leave(self, handle_id: str, owner: str) -> None:
        loop, handles = self.worker.loop, self.worker.handles
        loop.forget(owner)
        if self.dice.random() < 0.5:
            await loop.call(lambda: handles.lease(handle_id, owner=owner))
            self.left_behind.append(handle_id)
            del self.left_behind[: -2 * CALLERS]
        else:
            await loop.call(lambda: handles.release(handle_id, owner=owner))


async def storm(episodes: int) -> None:
    answers = await expected_answers()
    worker = Worker(small_model(BLOCKS))
    worker.loop.start()
    left_behind: list[str] = []
    callers = [Caller(worker, answers, random.Random(seed), left_behind) for seed in range(CALLERS)]

    async def keep_calling(caller: Caller) -> None:
        for _ in range(episodes // CALLERS):
            await caller.one()

    await asyncio.gather(*(keep_calling(caller) for caller in callers))
    status = await worker.loop.call(worker.handles.status)
    pool = worker.model.pool
    assert (status.in_use, pool.in_use, pool.available) == (0, 0, BLOCKS)
    assert pool.holders == {}
    assert sum(caller.whole for caller in callers) > episodes / 20
    assert sum(caller.cancelled for caller in callers) > episodes / 4
    assert pool.statistics.evicted_blocks > episodes / 10
    assert pool.statistics.preemptions > 0
    assert pool.statistics.prefix_hit_tokens > 0
    await worker.loop.close()


async def test_cancels_and_evictions_leave_nothing_behind() -> None:
    await storm(800)


@pytest.mark.slow
async def test_ten_thousand_cancels_and_evictions_leave_nothing_behind() -> None:
    await storm(10_000)
