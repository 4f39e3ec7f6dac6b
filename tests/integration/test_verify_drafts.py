"""Draft tokens at the target: which are set aside, and which are judged."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from outrider.draft_law import CutLaw
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.testing.scripted import ScriptedModel
from outrider.testing.streams import verify_round
from outrider.v1 import common_pb2
from target_service.draft_check import InvalidReason
from tests.integration.verify_streams import (
    PROMPT,
    SEED,
    SIZE,
    cold,
    decided,
    drawn,
    message,
    opened,
    random_laws,
    serving,
    status,
    table,
)


def without_law(good: common_pb2.DraftToken) -> common_pb2.DraftToken:
    return common_pb2.DraftToken(token_id=good.token_id)


def not_drawn(good: common_pb2.DraftToken) -> common_pb2.DraftToken:
    law = good.distribution
    other = next(token_id for token_id in law.token_ids if token_id != good.token_id)
    return message(other, law.token_ids, law.weights)


FAULTS: dict[InvalidReason, Callable[[common_pb2.DraftToken], common_pb2.DraftToken]] = {
    InvalidReason.LAW_MISSING: without_law,
    InvalidReason.LENGTHS_DIFFER: lambda good: message(good.token_id, [good.token_id], [1, 2]),
    InvalidReason.TOO_MANY_CANDIDATES: lambda good: message(good.token_id, range(257), [1] * 257),
    InvalidReason.ID_OUT_OF_RANGE: lambda good: message(
        good.token_id, [good.token_id, SIZE], [1, 1]
    ),
    InvalidReason.DUPLICATE_ID: lambda good: message(good.token_id, [good.token_id] * 2, [1, 1]),
    InvalidReason.WEIGHT_OUT_OF_RANGE: lambda good: message(
        good.token_id, [good.token_id], [65536]
    ),
    InvalidReason.TOKEN_NOT_IN_LAW: lambda good: message(
        good.token_id, [(good.token_id + 1) % SIZE], [1]
    ),
    InvalidReason.NOT_RECOMPUTED: not_drawn,
}


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("reason", InvalidReason)
async def test_drafts_with_a_fault_are_set_aside_and_counted(
    reason: InvalidReason, place: int
) -> None:
    drafts = drawn(PROMPT, random_laws(random.Random(2), 4, SIZE))
    drafts[place] = FAULTS[reason](drafts[place])
    async with serving(table()) as channel:
        stream = await opened(channel)
        answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
        assert answer.verdict.draft_invalid.reason == reason
        assert answer.verdict.draft_invalid.position == len(PROMPT) + place
        assert answer.verdict.accepted == 0
        assert answer.verdict.handle.length == len(PROMPT)
        now = await status(channel)
        assert (now.draft_invalid_rounds, now.draft_tokens, now.rounds) == (1, 0, 1)
        assert decided(answer)[:2] == (await cold(channel, PROMPT))[:2]


async def test_an_id_that_does_not_exist_is_an_invalid_draft() -> None:
    async with serving(table()) as channel:
        for token_id in (SIZE, 2**31 - 1, 2**32 - 1):
            draft = common_pb2.DraftToken(token_id=token_id, point_mass=common_pb2.PointMass())
            stream = await opened(channel)
            answer = await stream.ask(verify_round(1, PROMPT, drafts=[draft]))
            assert answer.verdict.draft_invalid.reason == InvalidReason.ID_OUT_OF_RANGE
            assert decided(answer)[:2] == (await cold(channel, PROMPT))[:2]


async def test_a_greedy_target_needs_no_law() -> None:
    model = table()
    best = int(model.table[PROMPT[-2], PROMPT[-1]].argmax())
    greedy = common_pb2.SamplingParams(seed=SEED, temperature=0)
    async with serving(model) as channel:
        stream = await opened(channel, sampling=greedy)
        drafts = [common_pb2.DraftToken(token_id=best)]
        answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
        assert answer.verdict.accepted == 1
        assert not answer.verdict.HasField("draft_invalid")
        drafts = [common_pb2.DraftToken(token_id=(best + 1) % SIZE)]
        answer = await stream.ask(verify_round(2, PROMPT, drafts=drafts))
        assert decided(answer) == (0, (best,), "")


async def test_a_token_without_target_mass_is_rejected_at_the_smallest_weight() -> None:
    banned, rare = 0, CutLaw((1, 0), (2047, 1))
    row = [0.0] * SIZE
    row[banned] = -1.0
    model = ScriptedModel(lambda _: row, vocabulary_size=SIZE)
    prefix = TokenPrefix(PROMPT)

    def draws_banned(seed: int) -> bool:
        word = draw_word(
            derive_seed(Purpose.DRAFT, seed=seed, choice_index=0),
            position=len(PROMPT),
            digest=prefix.digest(len(PROMPT)),
        )
        return rare.draw(word) == banned

    seeds = [seed for seed in range(20_000) if draws_banned(seed)]
    assert len(seeds) >= 3
    async with serving(model) as channel:
        for seed in seeds:
            stream = await opened(
                channel, sampling=common_pb2.SamplingParams(seed=seed, top_k=SIZE - 1)
            )
            drafts = [message(banned, rare.token_ids, rare.weights)]
            answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
            assert answer.verdict.accepted == 0
            assert not answer.verdict.HasField("draft_invalid")
            assert banned not in answer.verdict.output_token_ids
            await stream.half_close()
