"""What verdicts say of how likely draft tokens were to be accepted, against what came of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch

from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, below, derive_seed, draw_word
from outrider.testing.streams import VerifyStream, verify_round
from outrider.v1 import common_pb2, target_pb2
from tests.integration.verify_streams import (
    PROMPT,
    SEED,
    SIZE,
    drawn,
    message,
    opened,
    random_laws,
    serving,
    table,
)

ROUNDS = 200


async def verdict_on(
    stream: VerifyStream,
    number: int,
    drafts: list[common_pb2.DraftToken],
    *,
    prompt: Sequence[int] = PROMPT,
) -> target_pb2.Verdict:
    answer = await stream.ask(verify_round(number, prompt, drafts=drafts))
    return answer.verdict


async def test_it_is_exact_and_there_for_each_token_that_was_judged() -> None:
    model = table()
    generator = random.Random(3)
    seen = set()
    async with serving(model) as channel:
        stream = await opened(channel)
        for number in range(1, 60):
            prompt = generator.choices(range(SIZE), k=len(PROMPT))
            drafts = drawn(prompt, random_laws(generator, 4, SIZE))
            verdict = await verdict_on(stream, number, drafts, prompt=prompt)
            judged = min(verdict.accepted + 1, len(drafts))
            seen.add(verdict.accepted)
            before, expected = prompt, []
            for draft in drafts[:judged]:
                p = torch.softmax(model.table[before[-2], before[-1]], dim=-1)
                law = draft.distribution
                total = sum(law.weights)
                pairs = zip(law.token_ids, law.weights, strict=True)
                expected.append(sum(min(float(p[x]), weight / total) for x, weight in pairs))
                before.append(draft.token_id)
            assert list(verdict.expected_acceptance) == pytest.approx(expected, abs=1e-6)
    assert seen >= {0, 1, 2}


Drafter = Callable[[random.Random, int], common_pb2.DraftToken]


def word_of(seed: int) -> int:
    """What the draft draws its first token with."""
    draft_seed = derive_seed(Purpose.DRAFT, seed=seed, choice_index=0)
    digest = TokenPrefix(PROMPT).digest(len(PROMPT))
    return draw_word(draft_seed, position=len(PROMPT), digest=digest)


def honest(generator: random.Random, seed: int) -> common_pb2.DraftToken:
    """Chooses a law, then draws from it."""
    (law,) = random_laws(generator, 1, SIZE)
    return message(law.draw(word_of(seed)), law.token_ids, law.weights)


def hostile(generator: random.Random, seed: int) -> common_pb2.DraftToken:
    """Chooses a token, then a law that gives it, and so seldom that it is always accepted."""
    before, token_id, behind = generator.sample(range(SIZE), 3)
    total = 65_536
    start = min(max(below(word_of(seed), total), 1), total - 2)
    return message(token_id, [before, token_id, behind], [start, 1, total - 1 - start])


@pytest.mark.parametrize(("drafter", "alarms"), [(honest, False), (hostile, True)])
async def test_a_draft_that_makes_its_laws_up_is_found_out(drafter: Drafter, alarms: bool) -> None:
    """By the differences in standard deviations; the alarm is beyond 6."""
    generator, difference, variance = random.Random(5), 0.0, 0.0
    async with serving(table()) as channel:
        for seed in range(ROUNDS):
            stream = await opened(channel, sampling=common_pb2.SamplingParams(seed=seed))
            verdict = await verdict_on(stream, 1, [drafter(generator, seed)])
            await stream.half_close()
            assert not verdict.HasField("draft_invalid")
            (expected,) = verdict.expected_acceptance
            difference += verdict.accepted - expected
            variance += expected * (1.0 - expected)
    z = difference / math.sqrt(variance)
    assert (abs(z) > 6) if alarms else (abs(z) < 4), z


@pytest.mark.parametrize(
    "sampling",
    [
        common_pb2.SamplingParams(seed=SEED, verification=common_pb2.VERIFICATION_COUPLED),
        common_pb2.SamplingParams(seed=SEED),
    ],
    ids=["coupled", "point masses"],
)
async def test_nothing_is_expected_without_laws(sampling: common_pb2.SamplingParams) -> None:
    drafts = [common_pb2.DraftToken(token_id=4, point_mass=common_pb2.PointMass())]
    async with serving(table()) as channel:
        stream = await opened(channel, sampling=sampling)
        verdict = await verdict_on(stream, 1, drafts)
        assert not verdict.expected_acceptance
        verdict = await verdict_on(stream, 2, [])
        assert not verdict.expected_acceptance


async def test_only_what_was_judged_before_a_stop_is_counted() -> None:
    generator, ended = random.Random(3), 0
    async with serving(table()) as channel:
        for _ in range(30):
            prompt = generator.choices(range(SIZE), k=len(PROMPT))
            drafts = drawn(prompt, random_laws(generator, 3, SIZE))
            stops = [drafts[0].token_id]
            sampling = common_pb2.SamplingParams(seed=SEED, stop_token_ids=stops)
            stream = await opened(channel, sampling=sampling)
            verdict = await verdict_on(stream, 1, drafts, prompt=prompt)
            await stream.half_close()
            assert len(verdict.expected_acceptance) == 1
            ended += verdict.accepted
    assert 5 < ended < 30
