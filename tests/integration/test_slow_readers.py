"""Clients that read slowly or not at all: they are waited for, others are not (FAULTS K9)."""

from __future__ import annotations

import asyncio
import os

from tokenizers import Tokenizer, models

from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.footprint import Footprint
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.small_tokenizers import tokenizer_files
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
TOKEN_BYTES = 8192
"""Tokens of very long words fill every buffer on the way soon."""
TOKENS = 16_000
MOST_UNREAD_BYTES = 24 << 20
"""Of the 128 MB that the output has: what sockets and gRPC's windows hold on loopback."""
STILL_S = 1.0
SLOW_READS = 20

PROMPT = [1, 2, 3]
SAMPLING = common_pb2.SamplingParams(temperature=0.0, ignore_eos=True)


def wordy() -> Tokenizer:
    """Each id is a word of TOKEN_BYTES."""
    return Tokenizer(models.WordLevel({str(word) * TOKEN_BYTES: word for word in range(SIZE)}, "0"))


async def come_to_rest(model: TableModel) -> int:
    """The tokens read by the model, once there are no more for a while."""
    before = -1
    while model.tokens != before:
        before = model.tokens
        await asyncio.sleep(STILL_S)
    return before


async def test_who_does_not_read_is_waited_for_and_holds_nobody_up() -> None:
    model = TableModel(random_table(seed=1, vocabulary_size=SIZE), context_length=2 * TOKENS)
    plan = WorkerPlan(model, tokenizer=tokenizer_files(wordy()))
    slow = token_request(PROMPT, max_new_tokens=TOKENS, sampling=SAMPLING)
    quick = token_request(PROMPT, max_new_tokens=50, sampling=SAMPLING)
    async with running_cluster(plan, None) as cluster:
        before = Footprint.of(os.getpid())
        chunks = cluster.stub.Generate(slow)
        first: generation_pb2.GenerateResponse = await chunks.read()
        decided = await come_to_rest(model)
        assert decided < TOKENS
        assert decided * TOKEN_BYTES < MOST_UNREAD_BYTES
        grown = Footprint.of(os.getpid()).rss_bytes - before.rss_bytes
        assert grown < 3 * MOST_UNREAD_BYTES, "both ends and the way between are in this process"

        output = await cluster.generate(quick)
        assert len(output.token_ids) == 50
        assert output.token_ids[0] == first.chunk.token_ids[0]

        place = len(first.chunk.token_ids)
        for _ in range(SLOW_READS):
            response = await chunks.read()
            assert response.chunk.offset == place
            place += len(response.chunk.token_ids)
        chunks.cancel()
