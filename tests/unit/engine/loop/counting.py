"""A model that counts, whose forwards wait for permits, and the jobs that run on it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from outrider.engine.loop import Done, ModelLoop
from outrider.engine.model import Chunk, Model
from outrider.engine.model import Sequence as KvSequence
from outrider.engine.work import Answer, Work
from outrider.testing.scripted import ScriptedModel

VOCABULARY = 8
CONTEXT = 256


def logits(token_ids: Sequence[int]) -> list[float]:
    """1, 2, 3, 4, 5 follow each other in a circle; 6 gives infinity and 7 gives NaN."""
    if token_ids[-1] == 7:
        return [math.nan] * VOCABULARY
    row = [0.0] * VOCABULARY
    row[token_ids[-1] % 5 + 1] = math.inf if token_ids[-1] == 6 else 9.0
    return row


class GatedModel(ScriptedModel):
    """Each forward waits for a permit, so that a test decides what arrives meanwhile."""

    def __init__(self, *, blocks: int = 4096) -> None:
        super().__init__(logits, vocabulary_size=VOCABULARY, context_length=CONTEXT, blocks=blocks)
        self.permits = threading.Semaphore(0)
        self.began = threading.Semaphore(0)
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()

    def forward(self, chunks: Sequence[Chunk]) -> list[torch.Tensor]:
        self.threads.add(threading.get_ident())
        self.batches.append([len(chunk.token_ids) for chunk in chunks])
        self.began.release()
        assert self.permits.acquire(timeout=30)
        return super().forward(chunks)

    async def wait_until_running(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=30)

    def let_run(self, forwards: int = 1000) -> None:
        self.permits.release(forwards)


@dataclass
class Job:
    """Reads `prompt`, then as many tokens as wanted; notes what became of it.

    `each`: every token is an answer of its own. `sequence`: made when it starts unless given.
    """

    prompt: list[int]
    tokens: int = 1
    sequence: KvSequence | None = None
    error: Exception | None = None
    each: bool = False
    started: bool = False
    closed: bool = False
    ended_by: Exception | None = None

    @property
    def length(self) -> int:
        """Ids with KV state."""
        return 0 if self.sequence is None else len(self.sequence.prefix)


def counting_on(model: Model) -> Callable[[Job], Work[list[int]]]:
    """What a model loop starts its jobs with."""

    def count(job: Job) -> Work[list[int]]:
        job.started = True
        job.sequence = job.sequence or model.new_sequence()
        if job.error is not None and not job.prompt:
            raise job.error
        try:
            output: list[int] = []
            pending, final = job.prompt, len(job.prompt)
            while len(output) < job.tokens:
                rows = yield Chunk(job.sequence, pending, rows=1, final=final)
                if job.error is not None:
                    raise job.error
                output.append(int(rows[0].argmax()))
                pending, final = output[-1:], 0
                if job.each:
                    yield Answer(output[-1:])
            return output
        except Exception as error:
            job.ended_by = error
            raise
        finally:
            job.closed = True

    return count


Loop = ModelLoop[Job, list[int]]


async def result_of(loop: Loop, job: Job) -> Done[list[int]]:
    return await loop.submit(job).result()
