"""Generations that ask their target for one token a round: each comes back over the network.

A coordinator with draft tokens does the same. Here nothing stands between: raw Verify streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from grpc import aio

from outrider.prefix import TokenPrefix
from outrider.rpc.channel import open_channel
from outrider.testing.streams import open_verify
from outrider.v1 import common_pb2, target_pb2


def tokens_per_s(target: str, prompts: Sequence[Sequence[int]], *, output_tokens: int) -> float:
    """All output tokens over the time from asking to the last one, prefill included."""

    async def run() -> float:
        channel = open_channel(target)
        try:
            since = time.perf_counter()
            await asyncio.gather(*(_generate(channel, prompt, output_tokens) for prompt in prompts))
            return len(prompts) * output_tokens / (time.perf_counter() - since)
        finally:
            await channel.close()

    return asyncio.run(run())


async def _generate(channel: aio.Channel, prompt: Sequence[int], output_tokens: int) -> None:
    stream = await open_verify(
        channel,
        sampling=common_pb2.SamplingParams(temperature=1.0, seed=1, ignore_eos=True),
        prompt_length=len(prompt),
    )
    prefix, base_length = TokenPrefix(prompt), 0
    for number in range(1, output_tokens + 1):
        answer = await stream.ask(_round(number, prefix, base_length))
        if not answer.HasField("verdict"):
            raise RuntimeError(f"the round was not judged: {answer}")
        base_length = len(prefix)
        prefix.extend(answer.verdict.output_token_ids)
    await stream.half_close()


def _round(number: int, prefix: TokenPrefix, base_length: int) -> target_pb2.VerifyRequest:
    return target_pb2.VerifyRequest(
        round=target_pb2.VerifyRound(
            number=number,
            base_length=base_length,
            prefix_digest=prefix.digest(base_length),
            committed_token_ids=prefix.token_ids[base_length:],
            want_bonus=True,
        )
    )
