"""Drafts whose tokens or laws are wrong: set aside and counted, the output undisturbed."""

from __future__ import annotations

import pytest

from outrider.v1 import (
    common_pb2,
    generation_pb2,
)
from tests.integration.tampered_draft import Tamper, tampered_cluster
from tests.integration.undisturbed import (
    SIZE,
    alone,
    assert_undisturbed,
    request,
)


def missing_law(token: common_pb2.DraftToken) -> None:
    token.ClearField("law")


def duplicate_ids(token: common_pb2.DraftToken) -> None:
    law = token.distribution
    law.token_ids[:] = [token.token_id] * len(law.token_ids)


def zero_weights(token: common_pb2.DraftToken) -> None:
    token.distribution.weights[:] = [0] * len(token.distribution.weights)


def huge_weights(token: common_pb2.DraftToken) -> None:
    token.distribution.weights[0] = 2**32 - 1


def uneven_lengths(token: common_pb2.DraftToken) -> None:
    token.distribution.weights.append(1)


def no_candidates(token: common_pb2.DraftToken) -> None:
    token.distribution.CopyFrom(common_pb2.Distribution())


def sample_not_listed(token: common_pb2.DraftToken) -> None:
    law = token.distribution
    keep = [i for i, token_id in enumerate(law.token_ids) if token_id != token.token_id]
    ids, weights = [law.token_ids[i] for i in keep], [law.weights[i] for i in keep]
    law.token_ids[:], law.weights[:] = ids, weights


def foreign_candidate(token: common_pb2.DraftToken) -> None:
    token.distribution.token_ids.append(SIZE)
    token.distribution.weights.append(1)


def foreign_token(token: common_pb2.DraftToken) -> None:
    token.token_id = 2**32 - 1


def another_token(token: common_pb2.DraftToken) -> None:
    ids = token.distribution.token_ids
    token.token_id = ids[(list(ids).index(token.token_id) + 1) % len(ids)]


def too_many_candidates(token: common_pb2.DraftToken) -> None:
    token.distribution.token_ids.extend(range(300))
    token.distribution.weights.extend([1] * 300)


LIES = [
    missing_law,
    duplicate_ids,
    zero_weights,
    huge_weights,
    uneven_lengths,
    no_candidates,
    sample_not_listed,
    foreign_candidate,
    foreign_token,
    another_token,
    too_many_candidates,
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_a_lie_about_a_token_makes_rounds_of_plain_decoding(lie: Tamper) -> None:
    sampled = request(
        sampling=common_pb2.SamplingParams(seed=3, verification=common_pb2.VERIFICATION_REJECTION)
    )
    off = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
    async with tampered_cluster(lie) as cluster:
        output = await cluster.generate(sampled)
        sampled.speculation.CopyFrom(off)
        expected = (await cluster.generate(sampled)).token_ids
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    assert_undisturbed(output, expected)
    speculation = output.summary.speculation
    assert speculation.draft_invalid_rounds > 0
    assert speculation.draft_tokens == speculation.accepted_tokens == 0
    assert status.targets[0].status.draft_invalid_rounds == speculation.draft_invalid_rounds


async def test_tokens_that_hang_nowhere_are_not_used() -> None:
    def stray(token: common_pb2.DraftToken) -> None:
        token.root_round = 99

    async with tampered_cluster(stray) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_tokens == 0


async def test_guesses_are_never_verified() -> None:
    def guess(token: common_pb2.DraftToken) -> None:
        token.guess = True

    async with tampered_cluster(guess) as cluster:
        output = await cluster.generate(request())
    assert_undisturbed(output, await alone())
    assert output.summary.speculation.draft_tokens == 0
