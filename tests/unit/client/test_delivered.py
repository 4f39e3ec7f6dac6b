"""The request that goes on from what has come."""

from __future__ import annotations

import pytest

from outrider.client import RequestError
from outrider.client.delivered import DeliveredOutput
from outrider.v1 import common_pb2, generation_pb2

ORIGIN = generation_pb2.GenerationOrigin(model="m", weights_digest="w", seed=2**64 - 1)


def chunk(offset: int, *token_ids: int, **fields: object) -> generation_pb2.OutputChunk:
    return generation_pb2.OutputChunk(offset=offset, token_ids=token_ids, **fields)  # type: ignore[arg-type]


def test_it_goes_on_after_all_ids_with_the_same_weights_and_seed() -> None:
    asked = generation_pb2.GenerateRequest(text="a", max_new_tokens=9)
    output = DeliveredOutput(asked)
    output.add(chunk(0, 5, 6, origin=ORIGIN))
    output.add(chunk(2, 7))
    assert output.length == 3
    assert output.request == generation_pb2.GenerateRequest(
        text="a",
        max_new_tokens=9,
        output_token_ids=[5, 6, 7],
        weights_digest="w",
        sampling=common_pb2.SamplingParams(
            seed=2**64 - 1, verification=common_pb2.VERIFICATION_REJECTION
        ),
    )
    assert not asked.output_token_ids, "the caller's request is left alone"


@pytest.mark.parametrize(
    ("sampling", "verification"),
    [
        ({}, common_pb2.VERIFICATION_REJECTION),
        ({"seed": 7}, common_pb2.VERIFICATION_UNSPECIFIED),
        ({"verification": common_pb2.VERIFICATION_COUPLED}, common_pb2.VERIFICATION_COUPLED),
    ],
)
def test_the_rule_stays_what_it_was(
    sampling: dict[str, int], verification: common_pb2.Verification.ValueType
) -> None:
    asked = generation_pb2.GenerateRequest(
        text="a",
        sampling=common_pb2.SamplingParams(**sampling),  # type: ignore[arg-type]
    )
    output = DeliveredOutput(asked)
    output.add(chunk(0, 5, origin=ORIGIN))
    assert output.request.sampling.verification == verification
    assert output.request.sampling.seed == sampling.get("seed", 2**64 - 1)


def test_an_output_that_was_resumed_before_goes_on_from_there() -> None:
    output = DeliveredOutput(generation_pb2.GenerateRequest(text="a", output_token_ids=[1, 2]))
    output.add(chunk(2, 3))
    assert list(output.request.output_token_ids) == [1, 2, 3]


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_chunk_twice_or_too_far_on_is_refused(offset: int) -> None:
    output = DeliveredOutput(generation_pb2.GenerateRequest(text="a"))
    output.add(chunk(0, 5, 6))
    with pytest.raises(RequestError, match="DATA_LOSS"):
        output.add(chunk(offset, 7))
    assert output.length == 2
