"""Bytes on the wire: per draft token and per Round, at a short and at a long context."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pydoc_data.topics import topics
from statistics import median

from google.protobuf.message import Message

from benchmarks.embedded_pair import EmbeddedPair, embedded_pair
from benchmarks.results import Row
from benchmarks.ways import synchronous
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, draft_pb2, generation_pb2, target_pb2

CONTEXTS = (100, 4000)
DRAFT_LENGTH = 5
OUTPUT_TOKENS = 96
TOKEN_BAR, ROUND_BAR = "≤ 200 B", "≤ 1200 B"


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes seen at one context length."""

    tokens: list[int]
    """Each draft token in a Round to the target, its tag and length included."""
    proposed: list[int]
    """The same in the draft's Proposal."""
    rounds: list[int]
    """Each Round to the target with DRAFT_LENGTH draft tokens, as its whole message."""
    rest: list[int]
    """What such a message has beside its draft tokens."""
    draft_rounds: list[int]
    """Each Round to the draft, as its whole message."""


def measure(*, dtype: str = "bfloat16", prompts: int = 3) -> Iterator[Row]:
    """Rows for both contexts; the prompts of both end in the same tokens."""
    sizes = asyncio.run(_measure(dtype, prompts))
    note = f"embedded pair, {dtype}, temperature 1, k = {DRAFT_LENGTH}, {prompts} prompts"
    short = sizes[CONTEXTS[0]]
    for context, here in sizes.items():
        at = f"{note}, context of {context} tokens and more"
        for name, unit_bytes, before, bar in (
            ("draft_token", here.tokens, short.tokens, TOKEN_BAR),
            ("proposed_token", here.proposed, short.proposed, TOKEN_BAR),
            ("round", here.rounds, short.rounds, ROUND_BAR),
            ("round_rest", here.rest, short.rest, ""),
            ("draft_round", here.draft_rounds, short.draft_rounds, ""),
        ):
            compared = context != CONTEXTS[0]
            yield Row(
                f"wire_{name}_bytes_at_{context}",
                median(unit_bytes),
                "B",
                len(unit_bytes),
                ratio=median(unit_bytes) / median(before) if compared else None,
                against=f"context of {CONTEXTS[0]}" if compared else "",
                bar=bar,
                note=f"{WHAT[name]}; largest {max(unit_bytes)} B; {at}",
            )


WHAT = {
    "draft_token": "one draft token in a Round to the target",
    "proposed_token": "one draft token in a Proposal of the draft",
    "round": "a whole Round message to the target",
    "round_rest": "a Round message less its draft tokens",
    "draft_round": "a whole Round message to the draft",
}


async def _measure(dtype: str, prompts: int) -> dict[int, _Sizes]:
    found = {}
    async with embedded_pair(dtype=dtype) as pair:
        text = "\n\n".join(topics[name] for name in sorted(topics))
        tokenizer = pair.cluster.coordinator.pools.target_model().tokenizer
        assert tokenizer is not None
        token_ids = await tokenizer.encode(text[: 40_000 * prompts])
        ends = [CONTEXTS[-1] + place * 1500 for place in range(prompts)]
        for context in CONTEXTS:
            pair.wire.clear()
            for seed, end in enumerate(ends):
                print(f"  wire: context {context}, prompt {seed + 1}", file=sys.stderr, flush=True)
                await pair.cluster.generate(_request(token_ids[end - context : end], seed))
            found[context] = _sizes(pair)
    return found


def _request(token_ids: Sequence[int], seed: int) -> generation_pb2.GenerateRequest:
    return token_request(
        token_ids,
        max_new_tokens=OUTPUT_TOKENS,
        sampling=common_pb2.SamplingParams(
            temperature=1.0,
            seed=seed,
            ignore_eos=True,
            verification=common_pb2.VERIFICATION_REJECTION,
        ),
        speculation=synchronous(DRAFT_LENGTH),
    )


def _sizes(pair: EmbeddedPair) -> _Sizes:
    """The first Round of a generation carries its prompt and no draft tokens: it is left out."""
    rounds = [
        message for message in pair.wire.verify_rounds if len(message.draft_tokens) == DRAFT_LENGTH
    ]
    whole = [target_pb2.VerifyRequest(round=message).ByteSize() for message in rounds]
    tokens = [[_field_bytes(token) for token in message.draft_tokens] for message in rounds]
    return _Sizes(
        tokens=[size for one in tokens for size in one],
        proposed=[
            _field_bytes(token) for proposal in pair.wire.proposals for token in proposal.tokens
        ],
        rounds=whole,
        rest=[size - sum(one) for size, one in zip(whole, tokens, strict=True)],
        draft_rounds=[
            draft_pb2.DraftRequest(round=message).ByteSize()
            for message in pair.wire.draft_rounds
            if message.draft_until_length
        ],
    )


def _field_bytes(message: Message) -> int:
    """A message as a field of another: one byte of tag, the length, the content."""
    size = message.ByteSize()
    return 1 + (1 if size < 128 else 2) + size
