"""COUPLED at the target's contract: its own choices are the output, whatever is drafted."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Sequence

import pytest
from grpc import aio

from outrider.randomness import Purpose, derive_seed
from outrider.testing.exactness.coupled import plain_order
from outrider.testing.scripted import ScriptedModel
from outrider.testing.streams import VerifyStream, verify_round
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc
from target_service.draft_check import InvalidReason
from tests.integration.runs import read_run
from tests.integration.verify_streams import (
    PROMPT,
    SEED,
    SIZE,
    decided,
    message,
    opened,
    serving,
    status,
    table,
)

COUPLED = common_pb2.SamplingParams(seed=SEED, verification=common_pb2.VERIFICATION_COUPLED)
LENGTH = 30


def own_choices(length: int = LENGTH, prompt: Sequence[int] = PROMPT) -> list[int]:
    """The output by the definition."""
    laws = table().table.softmax(dim=2)
    couple_seed = derive_seed(Purpose.COUPLE, seed=SEED, choice_index=0)
    token_ids = list(prompt)
    while len(token_ids) < len(prompt) + length:
        law = laws[token_ids[-2], token_ids[-1]].tolist()
        token_ids += plain_order(law, couple_seed=couple_seed, position=len(token_ids))[:1]
    return token_ids[len(prompt) :]


def bare(token_ids: Sequence[int]) -> list[common_pb2.DraftToken]:
    """Draft tokens without a law."""
    return [common_pb2.DraftToken(token_id=token_id) for token_id in token_ids]


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    async with serving(table()) as channel:
        yield channel


async def coupled(channel: aio.Channel, **sampling: object) -> VerifyStream:
    params = common_pb2.SamplingParams(**sampling)  # type: ignore[arg-type]
    params.MergeFrom(COUPLED)
    return await opened(channel, sampling=params)


async def test_any_draft_tokens_give_the_same_output(channel: aio.Channel) -> None:
    expected, generator = own_choices(), random.Random(3)
    for _ in range(10):
        stream, output, number = await coupled(channel), [], 0
        while len(output) < LENGTH:
            number += 1
            right = expected[len(output) :][: generator.randint(0, 8)]
            drafts = right + generator.choices(range(SIZE), k=generator.randint(0, 3))
            token_ids = PROMPT + output
            base = len(token_ids) - 1 if number > 1 else 0
            accepted, new, reason = decided(
                await stream.ask(verify_round(number, token_ids, base=base, drafts=bare(drafts)))
            )
            assert reason == ""
            assert accepted >= len(right)
            assert len(new) == accepted + 1
            output += new
        assert output[:LENGTH] == expected
        await stream.half_close()


async def test_a_run_gives_it_too(channel: aio.Channel) -> None:
    stream = await coupled(channel)
    await stream.send(verify_round(1, PROMPT, decode=LENGTH - 1))
    answers = await read_run(stream)
    assert [answer.verdict.output_token_ids[0] for answer in answers] == own_choices()


async def test_the_bonus_comes_unasked(channel: aio.Channel) -> None:
    """It depends on no draft, so it costs nothing."""
    expected = own_choices()
    request = verify_round(1, PROMPT, drafts=bare(expected[:3]))
    request.round.want_bonus = False
    verdict = decided(await (await coupled(channel)).ask(request))
    assert verdict == (3, tuple(expected[:4]), "")


async def test_laws_decide_nothing(channel: aio.Channel) -> None:
    """Not even one that makes no sense."""
    expected = own_choices()
    laws = [
        message(expected[0], [], []),
        message(expected[1], [0, 0, SIZE], [0, 2**32 - 1]),
        common_pb2.DraftToken(token_id=expected[2], point_mass=common_pb2.PointMass()),
    ]
    verdict = decided(await (await coupled(channel)).ask(verify_round(1, PROMPT, drafts=laws)))
    assert verdict == (3, tuple(expected[:4]), "")


@pytest.mark.parametrize("token_id", [SIZE, 2**31 - 1, 2**32 - 1])
async def test_an_id_that_does_not_exist_is_set_aside(channel: aio.Channel, token_id: int) -> None:
    expected = own_choices()
    drafts = bare([expected[0], token_id])
    answer = await (await coupled(channel)).ask(verify_round(1, PROMPT, drafts=drafts))
    assert decided(answer) == (0, (expected[0],), InvalidReason.ID_OUT_OF_RANGE)
    assert answer.verdict.draft_invalid.position == len(PROMPT) + 1
    assert (await status(channel)).draft_invalid_rounds == 1


async def test_an_accepted_stop_id_ends_the_round(channel: aio.Channel) -> None:
    expected = own_choices()
    end = next(place for place in range(2, LENGTH) if expected[place] not in expected[:place])
    stream = await coupled(channel, stop_token_ids=[expected[end]])
    drafts = bare(expected[: end + 3])
    verdict = decided(await stream.ask(verify_round(1, PROMPT, drafts=drafts)))
    assert verdict == (end + 1, tuple(expected[: end + 1]), "")


async def test_another_output_of_the_request_has_other_noise(channel: aio.Channel) -> None:
    outputs = []
    for choice_index in range(3):
        stream = await opened(channel, sampling=COUPLED, choice_index=choice_index)
        await stream.send(verify_round(1, PROMPT, decode=LENGTH - 1))
        answers = await read_run(stream)
        outputs.append([answer.verdict.output_token_ids[0] for answer in answers])
    assert outputs[0] == own_choices()
    assert len({tuple(output) for output in outputs}) == 3


async def test_rows_behind_a_bad_one_are_cut() -> None:
    """What follows a draft token may be no law at all; the row before it decides as ever."""
    laws, expected = table().table, own_choices()

    def logits(token_ids: Sequence[int]) -> list[float]:
        good: list[float] = laws[token_ids[-2], token_ids[-1]].tolist()
        return good if len(token_ids) < len(PROMPT) + 2 else [math.nan] * SIZE

    async with serving(ScriptedModel(logits, vocabulary_size=SIZE)) as channel:
        drafts = bare(expected[:4])
        verdict = decided(
            await (await coupled(channel)).ask(verify_round(1, PROMPT, drafts=drafts))
        )
        assert verdict == (2, tuple(expected[:2]), "")
        wrong = bare([expected[0], (expected[1] + 1) % SIZE, 0, 0])
        verdict = decided(await (await coupled(channel)).ask(verify_round(1, PROMPT, drafts=wrong)))
        assert verdict == (1, tuple(expected[:2]), "")


async def test_the_target_names_the_feature(channel: aio.Channel) -> None:
    model = await model_pb2_grpc.ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest())
    assert "coupled" in model.features
